"""A chat with all operations of RisuAI's users."""

from tavernkit.risu_ai._conversation.chat import Chat

__all__ = ["Chat"]
