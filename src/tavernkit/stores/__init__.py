"""Chat history and variables: protocols and in-memory versions."""

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.stores.history import ChatHistory as ChatHistory
    from tavernkit.stores.history import InMemoryChatHistory as InMemoryChatHistory
    from tavernkit.stores.history import to_message as to_message
    from tavernkit.stores.history import wrap_history as wrap_history
    from tavernkit.stores.variables import InMemoryVariablesStore as InMemoryVariablesStore
    from tavernkit.stores.variables import VariablesStore as VariablesStore

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".history": ("ChatHistory", "InMemoryChatHistory", "to_message", "wrap_history"),
        ".variables": ("InMemoryVariablesStore", "VariablesStore"),
    },
)
