"""The OpenAI-compatible service."""
