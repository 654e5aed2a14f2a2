"""What a scan is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tavernkit.errors import Warn, log_warning
from tavernkit.lore.contracts import TokenCounter
from tavernkit.silly_tavern.world_info.selection import SelectedBooks, file_stem
from tavernkit.silly_tavern.world_info.settings import WorldInfoSettings
from tavernkit.values import EMPTY_OBJECT

GENERATION_TYPES = ("normal", "continue", "impersonate", "swipe", "regenerate", "quiet")
"""The generation types that entries can be limited to; any other counts as ``normal``."""

Substitute = Callable[[str], str]
"""Expands the macros of a text."""

ApplyRegex = Callable[[str, float | None], str]
"""Runs the prompt-time regex scripts for lore on a text; the depth is given for entries at a depth only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanData:
    """Texts beside the chat that entries can ask to be matched against, macros expanded."""

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
    """The character that is to speak, as character filters see it."""

    avatar: str
    tags: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The avatar's file name without extension, which is what filters list."""
        return file_stem(self.avatar)


@dataclass(frozen=True, slots=True)
class ChatLine:
    """A message of the chat as the scan list needs it."""

    name: str
    text: str
    is_system: bool = False


def scan_list(messages: Iterable[ChatLine], *, generation_type: str, include_names: bool) -> tuple[str, ...]:
    """Make the scan list of a chat (oldest first): usable messages, newest first, with names if asked for.

    A swipe leaves out the last one, which it is about to replace.
    """
    usable = [message for message in messages if not message.is_system]
    if generation_type == "swipe":
        usable = usable[:-1]
    return tuple(f"{line.name}: {line.text}" if include_names else line.text for line in reversed(usable))


@dataclass(frozen=True, slots=True)
class ScanPrompt:
    """A registered prompt: ``scan`` lets keys match in it, ``active`` is what its filter says."""

    text: str
    scan: bool = True
    active: bool = True


def scan_injects(prompts: Iterable[ScanPrompt], substitute: Substitute) -> tuple[str, ...]:
    """Give the texts of registered prompts that a scan looks at, in the order of registration, macros expanded."""
    expanded = (substitute(prompt.text) for prompt in prompts if prompt.scan and prompt.active)
    return tuple(text for text in expanded if text)


def _unchanged(text: str) -> str:
    return text


def _no_scripts(text: str, depth: float | None) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanInput:
    r"""Everything a scan needs from the outside.

    ``messages`` is the scan list, newest first (:func:`scan_list`). ``random`` gives numbers from 0 up to 1; without
    it, a generator with a fixed seed is used. ``substitute`` is expected to leave a text alone that holds none of
    ``{``, ``<`` and ``\}``, so that most keys never need it; ``count_tokens`` to count at most one token a UTF-8 byte
    and a small constant, so that most counts can be skipped while there is plenty of room.
    """

    messages: Sequence[str]
    books: SelectedBooks
    max_context: float
    count_tokens: TokenCounter
    settings: WorldInfoSettings = field(default_factory=WorldInfoSettings)
    scan_data: ScanData = field(default_factory=ScanData)
    injects: Sequence[str] = ()
    generation_type: str = "normal"
    speaker: Speaker | None = None
    timed_state: Mapping[str, object] = field(default_factory=lambda: EMPTY_OBJECT)
    forced: Sequence[Mapping[str, object]] = ()
    dry_run: bool = False
    substitute: Substitute = _unchanged
    apply_regex: ApplyRegex = _no_scripts
    random: Callable[[], float] | None = None
    warn: Warn = log_warning

    @property
    def trigger(self) -> str:
        """The generation type that entries' triggers are compared with."""
        return self.generation_type if self.generation_type in GENERATION_TYPES else "normal"
