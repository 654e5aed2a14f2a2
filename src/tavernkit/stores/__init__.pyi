from tavernkit.stores._history import ChatHistory as ChatHistory
from tavernkit.stores._history import InMemoryChatHistory as InMemoryChatHistory
from tavernkit.stores._history import to_message as to_message
from tavernkit.stores._history import wrap_history as wrap_history
from tavernkit.stores._variables import InMemoryVariablesStore as InMemoryVariablesStore
from tavernkit.stores._variables import VariableChanges as VariableChanges
from tavernkit.stores._variables import VariablesOverlay as VariablesOverlay
from tavernkit.stores._variables import VariablesStore as VariablesStore

__all__: list[str]
