from tavernkit.dialects._attachments import Attachment as Attachment
from tavernkit.dialects._attachments import parse_attachment as parse_attachment
from tavernkit.dialects._messages import MessageLike as MessageLike
from tavernkit.dialects._messages import message_from_openai as message_from_openai
from tavernkit.dialects._registry import Dialect as Dialect
from tavernkit.dialects._registry import DialectRegistry as DialectRegistry
from tavernkit.dialects._registry import convert as convert
from tavernkit.dialects._registry import register as register
from tavernkit.dialects._registry import registered as registered
from tavernkit.dialects._registry import unregister as unregister
from tavernkit.dialects._shapes import anthropic_tool_choice as anthropic_tool_choice
from tavernkit.dialects._shapes import anthropic_tools as anthropic_tools
from tavernkit.dialects._shapes import google_tool_config as google_tool_config
from tavernkit.dialects._shapes import google_tools as google_tools

__all__: list[str]
