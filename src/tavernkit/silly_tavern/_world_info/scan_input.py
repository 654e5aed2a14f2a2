"""The input of a scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT
from tavernkit.errors import Warn, log_warning
from tavernkit.lore import TokenCounter
from tavernkit.prompt._inputs import GENERATION_TYPES
from tavernkit.silly_tavern._world_info.selection import SelectedBooks, WorldInfoSettings, file_stem

if TYPE_CHECKING:
    from tavernkit.silly_tavern._world_info.entry import Entry

ExpandMacros: TypeAlias = Callable[[str], str]
"""Expands the macros of a text."""

ApplyRegex: TypeAlias = Callable[[str, float | None], str]
"""Runs the prompt-time regex scripts for lore on a text; the depth is given for entries at a depth only."""


ReadEntry: TypeAlias = "Callable[[Entry], str]"
"""Returns the text of an entry, unexpanded and without decorators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanData:
    """Texts besides the chat that entries can be matched against, macros expanded."""

    persona_description: str = ""
    character_description: str = ""
    character_personality: str = ""
    character_depth_prompt: str = ""
    scenario: str = ""
    creator_notes: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts in the order of an entry's match switches."""
        return (
            self.persona_description,
            self.character_description,
            self.character_personality,
            self.character_depth_prompt,
            self.scenario,
            self.creator_notes,
        )


@dataclass(frozen=True, slots=True)
class Speaker:
    """The next speaker, for character filters."""

    avatar: str
    tags: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The avatar's file name without extension, which is what filters list."""
        return file_stem(self.avatar)


def _unchanged(text: str) -> str:
    return text


def _no_scripts(text: str, depth: float | None) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanInput:
    r"""Everything a scan needs from the outside.

    ``messages`` is the scan list, newest first. ``random`` returns numbers from 0 up to 1; without it, a generator with
    a fixed seed is used. ``expand`` must not change a text that contains none of
    ``{``, ``<`` and ``\}``, so that most keys never need it; ``count_tokens`` must count at most one token per UTF-8
    byte plus a small constant, so that most counts can be skipped while there is plenty of room. ``forced`` items that
    are not objects are reported and left out.
    """

    messages: Sequence[str]
    books: SelectedBooks
    """The lorebooks by source."""
    max_context: float
    """Tokens that the budget is a share of."""
    count_tokens: TokenCounter
    settings: WorldInfoSettings = field(default_factory=WorldInfoSettings)
    """The global World Info settings."""
    scan_data: ScanData = field(default_factory=ScanData)
    """Texts besides the chat that entries can be matched against."""
    injects: Sequence[str] = ()
    """Texts of injections that are scanned too."""
    generation_type: str = "normal"
    """The kind of turn, for entries that are limited to some."""
    speaker: Speaker | None = None
    """The next speaker, for entries that are limited to some characters."""
    timed_state: Mapping[str, object] = field(default_factory=lambda: EMPTY_OBJECT)
    """Sticky entries, cooldowns and delays of earlier scans."""
    forced: Sequence[object] = ()
    dry_run: bool = False
    """True to leave timed effects as they are."""
    expand: ExpandMacros = _unchanged
    apply_regex: ApplyRegex = _no_scripts
    """Runs the regex scripts for lore on a text."""
    read: ReadEntry = attrgetter("content")
    """Returns the text of an entry."""
    random: Callable[[], float] | None = None
    warn: Warn = log_warning
    """Called with each warning."""

    @property
    def trigger(self) -> str:
        """The generation type that entries' triggers are compared with; unknown ones count as normal."""
        return self.generation_type if self.generation_type in GENERATION_TYPES else "normal"
