"""Turns of chats: from a request to what is stored."""
