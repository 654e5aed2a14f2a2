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

__all__: list[str]
