"""The global World Info settings."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, to_number, truthy
from tavernkit._values import EMPTY_OBJECT, is_mapping, is_sequence, shown
from tavernkit.errors import Warn, log_warning

DEFAULT_BUDGET = 25
"""Percent of the prompt for lore."""

EVENLY, CHARACTER_FIRST, GLOBAL_FIRST = 0, 1, 2


@dataclass(frozen=True, slots=True)
class CharacterLore:
    """Additional books of a character: ``name`` is its avatar's file name without extension."""

    name: str
    extra_books: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldInfoSettings:
    """SillyTavern's global World Info settings; the defaults are those of a fresh installation."""

    depth: float = 2
    """How many of the newest messages are scanned."""
    min_activations: float = 0
    """Look further back until this many entries are active; 0 disables it."""
    min_activations_depth_max: float = 0
    """How far back ``min_activations`` may look; 0 for the whole chat."""
    budget: float = DEFAULT_BUDGET
    """Percent of the context for lore."""
    budget_cap: float = 0
    """The maximum tokens for lore; 0 for no limit."""
    include_names: bool = True
    """Scan names of speakers too."""
    recursive: bool = True
    """Scan the texts of active entries for keys too."""
    overflow_alert: bool = False
    """Show an alert when the budget is used up; prompts do not depend on it."""
    case_sensitive: bool = False
    """Keys are case-sensitive."""
    match_whole_words: bool = True
    """Keys must be whole words."""
    character_strategy: float = CHARACTER_FIRST
    """The order of books: 0 evenly mixed, 1 the character's first, 2 global ones first."""
    use_group_scoring: bool = False
    """In a group of entries, keep only those with the most matching keys."""
    max_recursion_steps: float = 0
    """How often active entries are scanned again; 0 for no limit."""
    global_select: tuple[str, ...] = ()
    """Names of the books that are active everywhere."""
    character_lore: tuple[CharacterLore, ...] = ()
    """Additional books of characters."""

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, warn: Warn = log_warning) -> WorldInfoSettings:
        """Read the object ``world_info_settings`` of a settings file.

        Missing keys have the values that the program assumes, which are not always those of a fresh installation:
        without them, recursion and whole-word matching are off.

        Args:
            data: The parsed settings.
            warn: Called with each warning.
        """

        def number(name: str, default: float) -> float:
            given = data.get(f"world_info_{name}", UNDEFINED)
            read = float(default) if given is UNDEFINED else to_number(given)
            if read != read:
                warn(f"world_info_{name} should be a number, not {shown(given)}; {default} is used")
                return default
            return int(read) if read.is_integer() else read

        def flag(name: str, default: bool) -> bool:
            given = data.get(f"world_info_{name}", UNDEFINED)
            return default if given is UNDEFINED else truthy(given)

        budget = number("budget", DEFAULT_BUDGET)
        selection = data.get("world_info")
        chosen = selection if is_mapping(selection) else EMPTY_OBJECT
        return cls(
            depth=number("depth", 2),
            min_activations=number("min_activations", 0),
            min_activations_depth_max=number("min_activations_depth_max", 0),
            budget=DEFAULT_BUDGET if budget > 100 else budget,
            budget_cap=number("budget_cap", 0),
            include_names=flag("include_names", True),
            recursive=flag("recursive", False),
            overflow_alert=flag("overflow_alert", False),
            case_sensitive=flag("case_sensitive", False),
            match_whole_words=flag("match_whole_words", False),
            character_strategy=number("character_strategy", CHARACTER_FIRST),
            use_group_scoring=flag("use_group_scoring", False),
            max_recursion_steps=number("max_recursion_steps", 0),
            global_select=_names(chosen.get("globalSelect")),
            character_lore=character_lore(chosen.get("charLore")),
        )


def character_lore(value: object) -> tuple[CharacterLore, ...]:
    """Read SillyTavern's ``charLore`` list; items that are not objects are left out."""
    records = value if is_sequence(value) else ()
    return tuple(
        CharacterLore(str(record.get("name", "")), _names(record.get("extraBooks")))
        for record in records
        if is_mapping(record)
    )


def _names(value: object) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if is_sequence(value) else ()
