"""Stored chats: their changes, and their files."""
