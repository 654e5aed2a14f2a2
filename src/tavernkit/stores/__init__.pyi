from tavernkit.stores.history import ChatHistory as ChatHistory
from tavernkit.stores.history import InMemoryChatHistory as InMemoryChatHistory
from tavernkit.stores.history import to_message as to_message
from tavernkit.stores.history import wrap_history as wrap_history
from tavernkit.stores.variables import InMemoryVariablesStore as InMemoryVariablesStore
from tavernkit.stores.variables import VariableChanges as VariableChanges
from tavernkit.stores.variables import VariablesOverlay as VariablesOverlay
from tavernkit.stores.variables import VariablesStore as VariablesStore

__all__: list[str]
