"""Requests to chat-completion sources: the page's body from a preset, then the provider's request."""
