"""TavernKit: the same files in, the same prompt out, byte for byte, with an explanation of every piece.

>>> import tavernkit as tk
>>> from tavernkit.examples import example_path
>>> tk.load(example_path("aria.json")).character.name
'Aria'
"""

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.budget import TokenEstimator as TokenEstimator
    from tavernkit.budget import count_tokens as count_tokens
    from tavernkit.cards import Bundle as Bundle
    from tavernkit.cards import Character as Character
    from tavernkit.cards import CharacterBook as CharacterBook
    from tavernkit.cards import Limits as Limits
    from tavernkit.cards import User as User
    from tavernkit.cards import load as load
    from tavernkit.cards import save as save
    from tavernkit.errors import ConfigError as ConfigError
    from tavernkit.errors import MaxTokensExceededError as MaxTokensExceededError
    from tavernkit.errors import PipelineError as PipelineError
    from tavernkit.errors import StrictModeError as StrictModeError
    from tavernkit.errors import TavernKitError as TavernKitError
    from tavernkit.prompt import Block as Block
    from tavernkit.prompt import HookRegistry as HookRegistry
    from tavernkit.prompt import InjectionRegistry as InjectionRegistry
    from tavernkit.prompt import Message as Message
    from tavernkit.prompt import Plan as Plan
    from tavernkit.prompt import TraceCollector as TraceCollector
    from tavernkit.stores import ChatHistory as ChatHistory
    from tavernkit.stores import InMemoryChatHistory as InMemoryChatHistory
    from tavernkit.stores import InMemoryVariablesStore as InMemoryVariablesStore
    from tavernkit.stores import VariablesStore as VariablesStore

__version__ = "0.1.0.dev0"

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".budget": ("TokenEstimator", "count_tokens"),
        ".cards": ("Bundle", "Character", "CharacterBook", "Limits", "User", "load", "save"),
        ".errors": (
            "ConfigError",
            "MaxTokensExceededError",
            "PipelineError",
            "StrictModeError",
            "TavernKitError",
        ),
        ".prompt": ("Block", "HookRegistry", "InjectionRegistry", "Message", "Plan", "TraceCollector"),
        ".stores": ("ChatHistory", "InMemoryChatHistory", "InMemoryVariablesStore", "VariablesStore"),
    },
)
