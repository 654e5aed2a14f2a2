"""Messages in the form each provider gets from SillyTavern's server, quirks included."""

from tavernkit.silly_tavern.providers.chat import CHAT_SOURCES, ChatInput, chat_page_body, chat_request
from tavernkit.silly_tavern.providers.config import ServerConfig
from tavernkit.silly_tavern.providers.request import Connection, ProviderRequest, RequestRefusedError
from tavernkit.silly_tavern.providers.text import TEXT_BACKENDS, TextInput, text_page_body, text_request

__all__ = [
    "CHAT_SOURCES",
    "TEXT_BACKENDS",
    "ChatInput",
    "Connection",
    "ProviderRequest",
    "RequestRefusedError",
    "ServerConfig",
    "TextInput",
    "chat_page_body",
    "chat_request",
    "text_page_body",
    "text_request",
]
