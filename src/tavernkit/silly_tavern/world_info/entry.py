"""One World Info entry: SillyTavern's own JSON, read as its scan reads it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from tavernkit.silly_tavern.world_info.decorators import parse_decorators
from tavernkit.text.js_values import UNDEFINED, Undefined, loose_equals, to_number, to_string, truthy
from tavernkit.values import Json, JsonObject, is_list, is_mapping, is_sequence, thaw, thaw_object

T = TypeVar("T")

TEMPLATE: Mapping[str, Json] = {
    "key": [],
    "keysecondary": [],
    "comment": "",
    "content": "",
    "constant": False,
    "vectorized": False,
    "selective": True,
    "selectiveLogic": 0,
    "addMemo": False,
    "order": 100,
    "position": 0,
    "disable": False,
    "ignoreBudget": False,
    "excludeRecursion": False,
    "preventRecursion": False,
    "matchPersonaDescription": False,
    "matchCharacterDescription": False,
    "matchCharacterPersonality": False,
    "matchCharacterDepthPrompt": False,
    "matchScenario": False,
    "matchCreatorNotes": False,
    "delayUntilRecursion": 0,
    "probability": 100,
    "useProbability": True,
    "depth": 4,
    "outletName": "",
    "group": "",
    "groupOverride": False,
    "groupWeight": 100,
    "scanDepth": None,
    "caseSensitive": None,
    "matchWholeWords": None,
    "useGroupScoring": None,
    "automationId": "",
    "role": 0,
    "sticky": None,
    "cooldown": None,
    "delay": None,
    "triggers": [],
}
"""The fields of a new entry, in the order of the editor."""

SOURCE_FIELDS = (
    "matchPersonaDescription",
    "matchCharacterDescription",
    "matchCharacterPersonality",
    "matchCharacterDepthPrompt",
    "matchScenario",
    "matchCreatorNotes",
)
"""The switches that let an entry look at more than the chat, in the order in which the texts are joined."""


class Field(Generic[T]):
    """A field of the JSON, read with JavaScript's eyes: each has a reader that gives what the scan makes of it."""

    __slots__ = ("_name", "_read")

    def __init__(self, name: str, read: Callable[[Json | Undefined], T]) -> None:
        self._name = name
        self._read = read

    @overload
    def __get__(self, entry: None, owner: type) -> Field[T]: ...
    @overload
    def __get__(self, entry: Entry, owner: type) -> T: ...
    def __get__(self, entry: Entry | None, owner: type) -> Field[T] | T:
        """Read the field of an entry."""
        return self if entry is None else self._read(entry.raw.get(self._name, UNDEFINED))


def texts(value: object) -> tuple[str, ...]:
    """Read a list of texts; what is not text is left out, what is not a list is empty."""
    return tuple(item for item in value if isinstance(item, str)) if is_sequence(value) else ()


def names(value: object) -> tuple[str, ...]:
    """Read a list whose items are compared with names; one text alone counts as a list of it."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(to_string(item) for item in value) if is_sequence(value) else ()


def text(value: object) -> str:
    """Read text; anything else is empty."""
    return value if isinstance(value, str) else ""


def number(value: object) -> float:
    """Read a number as arithmetic does: missing is NaN."""
    return math.nan if value is UNDEFINED else to_number(value)


def optional_number(value: object) -> float | None:
    """Read a number, or nothing if it is missing or null."""
    return None if value is UNDEFINED or value is None else to_number(value)


def optional_flag(value: object) -> bool | None:
    """Read a switch, or nothing if it is missing or null: then the global setting counts."""
    return None if value is UNDEFINED or value is None else truthy(value)


def is_true(value: object) -> bool:
    """Read a switch that is compared with ``== true``: true, 1 and ``"1"`` are on."""
    return value is True or (value is not False and loose_equals(value, True))


def verbatim(value: Json | Undefined) -> Json | Undefined:
    """Take the value as it is."""
    return value


def level(value: Json | Undefined) -> Json | Undefined:
    """Read a level of delayed recursion: true is the first."""
    return 1 if value is True else value


@dataclass(frozen=True, slots=True)
class CharacterFilter:
    """Which characters (by file name) and tags an entry is for, or is not for."""

    exclude: bool = False
    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


def triggers(value: object) -> tuple[str, ...]:
    """Read the generation types an entry is for; what is not a list is for all."""
    return names(value) if is_sequence(value) else ()


def character_filter(value: object) -> CharacterFilter:
    """Read the filter; what is not an object filters nothing."""
    if not is_mapping(value):
        return CharacterFilter()
    return CharacterFilter(
        exclude=truthy(value.get("isExclude", UNDEFINED)),
        names=names(value.get("names")),
        tags=names(value.get("tags")),
    )


class Entry:
    """An entry of a book, or an entry-like object that was forced.

    ``raw`` is the JSON object itself, read only, and ``world`` the name of its book. The attributes give the fields as
    the scan understands them, whatever type the file has; a field that is missing is not filled in, because the
    program does not do so either (missing ``probability``: NaN, every roll fails).
    """

    __slots__ = ("_content", "_decorators", "raw", "world")

    raw: JsonObject
    world: str

    def __init__(self, raw: JsonObject, world: str, *, decorated: bool = True) -> None:
        self.raw = raw
        self.world = to_string(raw["world"]) if "world" in raw else world
        content = text(raw.get("content"))
        # Forced objects arrive as they are: their decorators were parsed, if at all, by whoever made them.
        self._decorators, self._content = parse_decorators(content) if decorated else ((), content)

    uid = Field("uid", verbatim)
    keys = Field("key", texts)
    secondary_keys = Field("keysecondary", texts)
    comment = Field("comment", text)
    constant = Field("constant", truthy)
    vectorized = Field("vectorized", truthy)
    selective = Field("selective", truthy)
    selective_logic = Field("selectiveLogic", verbatim)
    order = Field("order", number)
    position = Field("position", verbatim)
    disabled = Field("disable", is_true)
    ignore_budget = Field("ignoreBudget", truthy)
    exclude_recursion = Field("excludeRecursion", truthy)
    prevent_recursion = Field("preventRecursion", truthy)
    delay_until_recursion = Field("delayUntilRecursion", level)
    probability = Field("probability", verbatim)
    use_probability = Field("useProbability", truthy)
    depth = Field("depth", verbatim)
    outlet_name = Field("outletName", text)
    group = Field("group", text)
    group_override = Field("groupOverride", truthy)
    group_weight = Field("groupWeight", verbatim)
    scan_depth = Field("scanDepth", optional_number)
    case_sensitive = Field("caseSensitive", optional_flag)
    match_whole_words = Field("matchWholeWords", optional_flag)
    use_group_scoring = Field("useGroupScoring", optional_flag)
    automation_id = Field("automationId", text)
    role = Field("role", verbatim)
    sticky = Field("sticky", verbatim)
    cooldown = Field("cooldown", verbatim)
    delay = Field("delay", verbatim)
    triggers = Field("triggers", triggers)
    character_filter = Field("characterFilter", character_filter)

    @property
    def content(self) -> str:
        """The text, without decorators."""
        return self._content

    @property
    def decorators(self) -> tuple[str, ...]:
        """The decorators that SillyTavern knows, as written."""
        return self._decorators

    @property
    def identity(self) -> str:
        """What activation and timed effects know the entry by: ``book.uid``."""
        return f"{self.world}.{to_string(self.uid)}"

    @property
    def sources(self) -> int:
        """Which texts beside the chat it looks at: a bit for each of :data:`SOURCE_FIELDS`."""
        raw = self.raw
        return sum(1 << bit for bit, name in enumerate(SOURCE_FIELDS) if truthy(raw.get(name, UNDEFINED)))

    def to_json(self) -> JsonObject:
        """A copy of the JSON object, with every field it came with."""
        return thaw_object(self.raw)

    def __repr__(self) -> str:
        return f"Entry({self.identity!r}, {self.comment!r})"


def template_entry(fields: Mapping[str, Json | Undefined]) -> JsonObject:
    """Lay fields over a fresh copy of the template; a field that is undefined is missing from the result."""
    merged = {**TEMPLATE, **fields}
    return {name: thaw(value) for name, value in merged.items() if value is not UNDEFINED}


def problem_with(raw: object) -> str | None:
    """Say why an entry cannot be used, if so. A bad entry is left out; it never stops a scan."""
    if not is_mapping(raw):
        return f"an entry must be an object, not {type(raw).__name__}"
    content = raw.get("content")
    if content and not isinstance(content, str):
        return f"its content must be text, not {type(content).__name__}"
    for name in ("key", "keysecondary"):
        keys = raw.get(name)
        for key in keys if is_list(keys) else ():
            if not isinstance(key, str):
                return f"its {name} must be a list of texts"
    return None
