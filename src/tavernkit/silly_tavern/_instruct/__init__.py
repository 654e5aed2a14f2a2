"""Instruct mode: its templates, the system prompt, and the format of messages."""
