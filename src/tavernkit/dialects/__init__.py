"""Messages to provider payloads: one module a provider, and a registry."""

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.dialects.attachments import Attachment as Attachment
    from tavernkit.dialects.attachments import parse_attachment as parse_attachment
    from tavernkit.dialects.messages import MessageLike as MessageLike
    from tavernkit.dialects.messages import message_from_openai as message_from_openai
    from tavernkit.dialects.registry import Dialect as Dialect
    from tavernkit.dialects.registry import DialectRegistry as DialectRegistry
    from tavernkit.dialects.registry import convert as convert
    from tavernkit.dialects.registry import register as register
    from tavernkit.dialects.registry import registered as registered
    from tavernkit.dialects.registry import unregister as unregister
    from tavernkit.dialects.tools import anthropic_tool_choice as anthropic_tool_choice
    from tavernkit.dialects.tools import anthropic_tools as anthropic_tools
    from tavernkit.dialects.tools import google_tool_config as google_tool_config
    from tavernkit.dialects.tools import google_tools as google_tools

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".attachments": ("Attachment", "parse_attachment"),
        ".messages": ("MessageLike", "message_from_openai"),
        ".registry": ("Dialect", "DialectRegistry", "convert", "register", "registered", "unregister"),
        ".tools": ("anthropic_tool_choice", "anthropic_tools", "google_tool_config", "google_tools"),
    },
)
