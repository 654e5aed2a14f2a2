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
    from tavernkit.cards import Asset as Asset
    from tavernkit.cards import Bundle as Bundle
    from tavernkit.cards import Character as Character
    from tavernkit.cards import CharacterBook as CharacterBook
    from tavernkit.cards import Format as Format
    from tavernkit.cards import Limits as Limits
    from tavernkit.cards import Problem as Problem
    from tavernkit.cards import User as User
    from tavernkit.cards import convert as convert
    from tavernkit.cards import load as load
    from tavernkit.cards import save as save
    from tavernkit.cards import validate as validate
    from tavernkit.errors import ConfigError as ConfigError
    from tavernkit.errors import FileFormatError as FileFormatError
    from tavernkit.errors import InvalidCardError as InvalidCardError
    from tavernkit.errors import InvalidPresetError as InvalidPresetError
    from tavernkit.errors import LimitExceededError as LimitExceededError
    from tavernkit.errors import MaxTokensExceededError as MaxTokensExceededError
    from tavernkit.errors import PipelineError as PipelineError
    from tavernkit.errors import StrictModeError as StrictModeError
    from tavernkit.errors import TavernKitError as TavernKitError
    from tavernkit.errors import UnsupportedVersionError as UnsupportedVersionError
    from tavernkit.errors import WarningLog as WarningLog
    from tavernkit.lore import LoreResult as LoreResult
    from tavernkit.lore import LoreRow as LoreRow
    from tavernkit.prompt import Block as Block
    from tavernkit.prompt import Explanation as Explanation
    from tavernkit.prompt import HookRegistry as HookRegistry
    from tavernkit.prompt import InjectionRegistry as InjectionRegistry
    from tavernkit.prompt import Message as Message
    from tavernkit.prompt import Omission as Omission
    from tavernkit.prompt import Plan as Plan
    from tavernkit.prompt import TraceCollector as TraceCollector
    from tavernkit.stores import ChatHistory as ChatHistory
    from tavernkit.stores import InMemoryChatHistory as InMemoryChatHistory
    from tavernkit.stores import InMemoryVariablesStore as InMemoryVariablesStore
    from tavernkit.stores import VariablesStore as VariablesStore

__version__ = "0.1.0"

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".budget": ("TokenEstimator", "count_tokens"),
        ".cards": (
            "Asset",
            "Bundle",
            "Character",
            "CharacterBook",
            "Format",
            "Limits",
            "Problem",
            "User",
            "convert",
            "load",
            "save",
            "validate",
        ),
        ".errors": (
            "ConfigError",
            "FileFormatError",
            "InvalidCardError",
            "InvalidPresetError",
            "LimitExceededError",
            "MaxTokensExceededError",
            "PipelineError",
            "StrictModeError",
            "TavernKitError",
            "UnsupportedVersionError",
            "WarningLog",
        ),
        ".lore": ("LoreResult", "LoreRow"),
        ".prompt": (
            "Block",
            "Explanation",
            "HookRegistry",
            "InjectionRegistry",
            "Message",
            "Omission",
            "Plan",
            "TraceCollector",
        ),
        ".stores": ("ChatHistory", "InMemoryChatHistory", "InMemoryVariablesStore", "VariablesStore"),
    },
)
