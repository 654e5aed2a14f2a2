"""Prompts that keep a provider's cache: opt-in changes to RisuAI's order."""
