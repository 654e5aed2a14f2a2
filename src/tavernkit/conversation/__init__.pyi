from tavernkit._turns import Chat as Chat
from tavernkit._turns import Exchange as Exchange
from tavernkit._turns import Host as Host
from tavernkit._turns import ToolOutcome as ToolOutcome
from tavernkit._turns import Turn as Turn
from tavernkit.conversation._attachments import AttachmentInput as AttachmentInput
from tavernkit.conversation._blocking import BlockingConversation as BlockingConversation
from tavernkit.conversation._blocking import BlockingPendingTurn as BlockingPendingTurn
from tavernkit.conversation._changes import Changes as Changes
from tavernkit.conversation._conversation import Conversation as Conversation
from tavernkit.conversation._pending_turn import PendingTurn as PendingTurn
from tavernkit.conversation._program_stores import RisuSaveStore as RisuSaveStore
from tavernkit.conversation._program_stores import SillyTavernStore as SillyTavernStore
from tavernkit.conversation._reply_stream import ReplyStream as ReplyStream
from tavernkit.conversation._stores import ConversationStore as ConversationStore
from tavernkit.conversation._stores import FileStore as FileStore
from tavernkit.conversation._stores import MemoryStore as MemoryStore
from tavernkit.conversation._stores import SavedChat as SavedChat
from tavernkit.conversation._stores import SqliteStore as SqliteStore
from tavernkit.conversation._tools import ToolInput as ToolInput
from tavernkit.conversation.errors import ConversationBusyError as ConversationBusyError
from tavernkit.conversation.errors import StoreConflictError as StoreConflictError
from tavernkit.conversation.errors import StoreError as StoreError

__all__: list[str]
