from tavernkit.conversation.attachments import AttachmentInput as AttachmentInput
from tavernkit.conversation.blocking import BlockingConversation as BlockingConversation
from tavernkit.conversation.conversation import Conversation as Conversation
from tavernkit.conversation.errors import ConversationBusyError as ConversationBusyError
from tavernkit.conversation.errors import StoreConflictError as StoreConflictError
from tavernkit.conversation.errors import StoreError as StoreError
from tavernkit.conversation.program_stores import RisuSaveStore as RisuSaveStore
from tavernkit.conversation.program_stores import SillyTavernStore as SillyTavernStore
from tavernkit.conversation.reply_stream import ReplyStream as ReplyStream
from tavernkit.conversation.stores import ConversationStore as ConversationStore
from tavernkit.conversation.stores import FileStore as FileStore
from tavernkit.conversation.stores import MemoryStore as MemoryStore
from tavernkit.conversation.stores import SavedChat as SavedChat
from tavernkit.conversation.stores import SqliteStore as SqliteStore
from tavernkit.conversation.tools import ToolInput as ToolInput
from tavernkit.turns import Chat as Chat
from tavernkit.turns import Exchange as Exchange
from tavernkit.turns import Host as Host
from tavernkit.turns import ToolOutcome as ToolOutcome
from tavernkit.turns import Turn as Turn

__all__: list[str]
