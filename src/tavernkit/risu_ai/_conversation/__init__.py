"""A chat with everything that a user of RisuAI can do to it."""

from tavernkit.risu_ai._conversation.chat import Chat

__all__ = ["Chat"]
