"""Instruct mode: its templates, the system prompt, and how messages are written with them."""
