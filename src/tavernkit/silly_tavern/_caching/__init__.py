"""Prompts that keep a provider's cache: opt-in changes to SillyTavern's order, and what a chat costs."""
