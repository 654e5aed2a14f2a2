"""What every lore engine takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from tavernkit.errors import LoreParseError, Warn
from tavernkit.values import EMPTY_OBJECT, FrozenObject, JsonObject, freeze_object, is_mapping, is_sequence, thaw


@dataclass(frozen=True, slots=True)
class LoreEntry:
    """One entry of a lorebook, with the fields that every format has. Platforms have richer ones."""

    keys: Sequence[str]
    content: str
    id: str | None = None
    name: str | None = None
    comment: str | None = None
    enabled: bool = True
    insertion_order: int = 100
    priority: int | None = None
    use_regex: bool = False
    case_sensitive: bool | None = None
    constant: bool | None = None
    selective: bool | None = None
    secondary_keys: Sequence[str] = ()
    position: str | None = None
    extensions: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    @property
    def is_selective(self) -> bool:
        """Whether secondary keys count: it must be asked for and there must be some."""
        return bool(self.selective and self.secondary_keys)

    @classmethod
    def from_mapping(cls, value: Mapping[str, object]) -> LoreEntry:
        """Read an entry. Ids may be numbers and keys may be empty, as real books have them."""
        keys = _texts(value.get("keys"), "keys")
        content = value.get("content", "")
        if not isinstance(content, str):
            raise LoreParseError(f"a lore entry's content must be text, not {type(content).__name__}")
        extensions = value.get("extensions")
        identifier = value.get("id")
        return cls(
            keys=keys,
            content=content,
            id=None if identifier is None else str(identifier),
            name=_optional_text(value.get("name")),
            comment=_optional_text(value.get("comment")),
            enabled=value.get("enabled", True) is not False,
            insertion_order=_integer(value.get("insertion_order"), 100) or 0,
            priority=_integer(value.get("priority"), None),
            use_regex=value.get("use_regex") is True,
            case_sensitive=_optional_flag(value.get("case_sensitive")),
            constant=_optional_flag(value.get("constant")),
            selective=_optional_flag(value.get("selective")),
            secondary_keys=_texts(value.get("secondary_keys"), "secondary_keys"),
            position=_optional_text(value.get("position")),
            extensions=freeze_object(extensions) if is_mapping(extensions) else EMPTY_OBJECT,
        )

    def to_dict(self) -> JsonObject:
        """What is set, ready for :mod:`json`."""
        values = {name: thaw(getattr(self, name)) for name in self.__slots__}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class LoreBook:
    """A lorebook with the fields that every format has."""

    name: str | None = None
    description: str | None = None
    scan_depth: int | None = None
    token_budget: int | None = None
    recursive_scanning: bool | None = None
    extensions: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    entries: Sequence[LoreEntry] = ()

    @property
    def enabled_entries(self) -> tuple[LoreEntry, ...]:
        """Entries that are switched on."""
        return tuple(entry for entry in self.entries if entry.enabled)

    @property
    def constant_entries(self) -> tuple[LoreEntry, ...]:
        """Entries that need no key."""
        return tuple(entry for entry in self.entries if entry.constant)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return not self.entries

    @classmethod
    def from_mapping(cls, value: Mapping[str, object], *, warn: Warn | None = None) -> LoreBook:
        """Read a book; an entry that cannot be read is reported and left out."""
        entries: list[LoreEntry] = []
        raw_entries = value.get("entries")
        for index, raw in enumerate(raw_entries if is_sequence(raw_entries) else ()):
            try:
                if not is_mapping(raw):
                    raise LoreParseError(f"a lore entry must be an object, not {type(raw).__name__}")
                entries.append(LoreEntry.from_mapping(raw))
            except LoreParseError as error:
                if warn is None:
                    raise
                warn(f"lore entry {index} is left out: {error}")
        extensions = value.get("extensions")
        return cls(
            name=_optional_text(value.get("name")),
            description=_optional_text(value.get("description")),
            scan_depth=_integer(value.get("scan_depth"), None),
            token_budget=_integer(value.get("token_budget"), None),
            recursive_scanning=_optional_flag(value.get("recursive_scanning")),
            extensions=freeze_object(extensions) if is_mapping(extensions) else EMPTY_OBJECT,
            entries=tuple(entries),
        )

    def to_dict(self) -> JsonObject:
        """What is set, ready for :mod:`json`."""
        values = {name: thaw(getattr(self, name)) for name in self.__slots__ if name != "entries"}
        plain = {name: value for name, value in values.items() if value is not None}
        return {**plain, "entries": [entry.to_dict() for entry in self.entries]}


class LoreResult(Protocol):
    """What a scan gives: the entries that go into the prompt, and why the others do not."""

    @property
    def activated_entries(self) -> Sequence[object]:
        """Entries that matched and fit the budget."""
        ...

    @property
    def total_tokens(self) -> int:
        """Tokens of all activated entries."""
        ...


InputT_contra = TypeVar("InputT_contra", contravariant=True)
ResultT_co = TypeVar("ResultT_co", bound=LoreResult, covariant=True)


class LoreEngine(Protocol[InputT_contra, ResultT_co]):
    """Decides which entries a chat calls up."""

    def scan(self, scan_input: InputT_contra) -> ResultT_co:
        """Scan the chat of ``scan_input`` (each platform has its own)."""
        ...


TokenCounter = Callable[[str], int]
"""Counts the tokens of a text."""


def _texts(value: object, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not is_sequence(value):
        raise LoreParseError(f"a lore entry's {what} must be a list of texts, not {type(value).__name__}")
    if not all(isinstance(item, str) for item in value):
        raise LoreParseError(f"a lore entry's {what} must hold only texts")
    return tuple(str(item) for item in value)


def _optional_text(value: object) -> str | None:
    return None if value is None else str(value)


def _optional_flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _integer(value: object, default: int | None) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return default
    try:
        return int(value)
    except (ValueError, OverflowError):
        return default
