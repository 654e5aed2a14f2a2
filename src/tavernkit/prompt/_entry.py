"""An entry of a prompt manager: a prompt that can be switched off, moved and made conditional."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeVar

from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import BLANKS, boolean, by_name_or_code, trim_blanks
from tavernkit._text.js_regex import DEFAULT_TIMEOUT, JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values.strings import occurrences
from tavernkit._values import EMPTY_OBJECT, FrozenObject, freeze_object, is_mapping, is_sequence
from tavernkit.errors import Warn
from tavernkit.prompt._inputs import GENERATION_TYPES, GenerationType

Role = Literal["system", "user", "assistant", "tool", "function"]

D = TypeVar("D")

_GENERATION_TYPE_NAMES: Mapping[str, GenerationType] = {name: name for name in GENERATION_TYPES}
_ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool", "function")
_ROLE_NAMES: Mapping[str, Role] = {name: name for name in _ROLES}


def generation_type(value: object, default: D = "normal") -> GenerationType | D:
    """Read a generation type by its name or code (0 to 5)."""
    return by_name_or_code(value, GENERATION_TYPES, _GENERATION_TYPE_NAMES, default)


def generation_types(values: object) -> list[GenerationType]:
    """Read a list of generation types (the triggers of a prompt); without unknown ones and duplicates."""
    listed: Iterable[object] = values if is_sequence(values) else () if values is None else (values,)
    read: list[GenerationType | None] = [generation_type(value, None) for value in listed]
    return list(dict.fromkeys([one for one in read if one is not None]))


def role(value: object, default: D = "system") -> Role | D:
    """Read the role of a message by its name or code (0 system, 1 user, 2 assistant)."""
    return by_name_or_code(value, _ROLES[:3], _ROLE_NAMES, default)


DEFAULT_CHAT_DEPTH = 2
MAX_CHAT_DEPTH = 100


class HasName(Protocol):
    """A participant whose name conditions check."""

    @property
    def name(self) -> str:
        """The name in the chat."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryConditions:
    """What the conditions of entries are checked against: the newest message comes first."""

    chat_scan_messages: Sequence[str] = ()
    """Texts of the chat, newest first."""
    default_chat_depth: int = DEFAULT_CHAT_DEPTH
    """How many messages a ``chat`` condition checks, unless it sets its own number."""
    turn_count: int | None = None
    """The number of the turn, for ``turns`` conditions; None counts as 0."""
    character: HasName | None = None
    """The character, for ``character`` conditions; without one, these conditions are false."""
    character_creator: str = ""
    """Who made the card."""
    character_version: str = ""
    """The version of the card."""
    character_tags: Sequence[str] = ()
    """The tags of the card."""
    user: HasName | None = None
    """The user, for ``user`` conditions; without one, these conditions are false."""
    persona: str = ""
    """The description of the user's persona."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEntry:
    """One entry: its text, where it goes, for which generations, under which conditions."""

    id: str
    """The entry's id."""
    name: str = ""
    """What people call it; the id by default."""
    content: str = ""
    """The text."""
    enabled: bool = True
    """False if the entry is switched off."""
    pinned: bool = False
    """True if a prompt manager must not remove it. Builds ignore it."""
    role: str = "system"
    """The role of its message."""
    position: str = "relative"
    """``relative`` (in the order of the list) or ``in_chat`` (at ``depth``)."""
    depth: int = 4
    """Messages between it and the end of the chat, if ``in_chat``."""
    order: int = 100
    """Sorts entries at the same depth."""
    triggers: Sequence[str] = ()
    """Generation types that the entry is for; empty for all."""
    forbid_overrides: bool = False
    """True if a card must not replace the text."""
    conditions: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """When the entry applies: ``chat``, ``turns``, ``character``, ``user``, joined by ``all`` or ``any``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.id)
        object.__setattr__(self, "depth", abs(self.depth))

    @classmethod
    def from_mapping(cls, value: Mapping[str, object]) -> PromptEntry | None:
        """Read an entry (camelCase or snake_case); None if it has neither ``id`` nor ``key``."""
        identifier = _pick(value, "id", "key")
        if identifier is None or not str(identifier).strip():
            return None
        conditions = value.get("conditions")
        position = str(_pick(value, "position") or "relative").lower()
        return cls(
            id=str(identifier),
            name=str(_pick(value, "name") or identifier),
            content=str(_pick(value, "content") or ""),
            enabled=boolean(value.get("enabled"), True),
            pinned=boolean(value.get("pinned"), False),
            role=role(value.get("role"), "system"),
            position="in_chat" if position in {"in_chat", "inchat", "chat"} else "relative",
            depth=_integer(_pick(value, "depth"), 4),
            order=_integer(_pick(value, "order"), 100),
            triggers=tuple(generation_types(_pick(value, "triggers", "injection_trigger", "injectionTrigger"))),
            forbid_overrides=boolean(_pick(value, "forbid_overrides", "forbidOverrides"), False),
            conditions=freeze_object(conditions) if is_mapping(conditions) else EMPTY_OBJECT,
        )

    def triggered_by(self, generation_type: str) -> bool:
        """Return True if it applies to a generation type; without triggers it applies to all."""
        return not self.triggers or generation_type in self.triggers

    def active_for(self, context: EntryConditions | None) -> bool:
        """Return True if its conditions are met, or it has none."""
        if not self.conditions:
            return True
        return context is not None and _holds(self.conditions, context)


def _holds(condition: Mapping[str, object], context: EntryConditions) -> bool:
    return all(check(condition[name], context) for name, check in _CHECKS if condition.get(name) is not None)


def _all_hold(value: object, context: EntryConditions) -> bool:
    return all(_nested(item, context) for item in _items(value))


def _any_holds(value: object, context: EntryConditions) -> bool:
    return any(_nested(item, context) for item in _items(value))


def _nested(value: object, context: EntryConditions) -> bool:
    return is_mapping(value) and _holds(value, context)


def _chat_holds(value: object, context: EntryConditions) -> bool:
    options: Mapping[str, object] = value if is_mapping(value) else {"any": value}
    depth = min(max(_integer(options.get("depth"), context.default_chat_depth), 0), MAX_CHAT_DEPTH)
    if depth == 0:  # no message is checked, so nothing can be found; not even with an empty list of patterns
        return False
    text = "\n".join(context.chat_scan_messages[:depth])
    case_sensitive = boolean(_pick(options, "case_sensitive", "caseSensitive"), False)
    whole_words = boolean(_pick(options, "match_whole_words", "matchWholeWords"), False)

    def found(pattern: object) -> bool:
        return matches(str(pattern), text, case_sensitive=case_sensitive, match_whole_words=whole_words)

    any_of, all_of = _items(options.get("any")), _items(options.get("all"))
    return (not any_of or any(found(item) for item in any_of)) and all(found(item) for item in all_of)


def _turns_hold(value: object, context: EntryConditions) -> bool:
    turns = context.turn_count or 0
    if not is_mapping(value):  # text that is no number never equals the turn
        return turns == _integer(value, -1)
    least, most, equals, every = (value.get(name) for name in ("min", "max", "equals", "every"))
    if every is not None and (_integer(every, 0) <= 0 or turns % _integer(every, 1) != 0):
        return False
    return (
        (least is None or turns >= _integer(least, 0))
        and (most is None or turns <= _integer(most, 0))
        and (equals is None or turns == _integer(equals, -1))
    )


def _character_holds(value: object, context: EntryConditions) -> bool:
    if context.character is None:
        return False
    options: Mapping[str, object] = value if is_mapping(value) else {"name": value}
    fields = (
        (options.get("name"), context.character.name),
        (options.get("creator"), context.character_creator),
        (_pick(options, "character_version", "characterVersion"), context.character_version),
    )
    if not all(_same(wanted, actual) for wanted, actual in fields if wanted is not None):
        return False
    tags = {_folded(tag) for tag in context.character_tags}
    any_tags, all_tags = _items(_pick(options, "tags_any", "tagsAny")), _items(_pick(options, "tags_all", "tagsAll"))
    return (not any_tags or any(_folded(tag) in tags for tag in any_tags)) and all(
        _folded(tag) in tags for tag in all_tags
    )


def _user_holds(value: object, context: EntryConditions) -> bool:
    if context.user is None:
        return False
    options: Mapping[str, object] = value if is_mapping(value) else {"name": value}
    if options.get("name") is not None and not _same(options["name"], context.user.name):
        return False
    persona = options.get("persona")
    return persona is None or any(matches(str(item), context.persona, case_sensitive=False) for item in _items(persona))


_CHECKS: Sequence[tuple[str, Callable[[object, EntryConditions], bool]]] = (
    ("all", _all_hold),
    ("any", _any_holds),
    ("chat", _chat_holds),
    ("turns", _turns_hold),
    ("character", _character_holds),
    ("user", _user_holds),
)


def _same(wanted: object, actual: str) -> bool:
    return _folded(wanted) == _folded(actual)


def _folded(value: object) -> str:
    return str(value).strip().lower()


def _items(value: object) -> Sequence[object]:
    if value is None:
        return ()
    return value if is_sequence(value) else (value,)


def _pick(value: Mapping[str, object], *names: str) -> object:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _integer(value: object, default: int) -> int:
    try:
        return int(value)  # pyright: ignore[reportArgumentType]  # anything that is not integer-like gives the default
    except (TypeError, ValueError, OverflowError):
        return default


_PATTERN_REGEX = re.compile(r"/((?:[^\\/]++|\\.)++)/([a-z]*)", re.DOTALL)
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


def matches(
    pattern: str | JSRegex,
    text: str,
    *,
    case_sensitive: bool = False,
    match_whole_words: bool = False,
    timeout: float | None = DEFAULT_TIMEOUT,
    warn: Warn | None = None,
) -> bool:
    """Return True if a text contains a pattern: plain words, or ``/regex/flags``.

    Only the regex flags ``i`` and ``s`` are used. Whole-word matching applies only to patterns of one word. An invalid
    regex matches nothing and is reported.
    """
    if isinstance(pattern, JSRegex):
        return _regex_matches(pattern.source, pattern.flags, text, case_sensitive, timeout, warn)
    literal = _PATTERN_REGEX.fullmatch(pattern)
    if literal is not None:
        return _regex_matches(literal[1], literal[2], text, case_sensitive, timeout, warn)
    wanted = trim_blanks(pattern)
    if not wanted:
        return False
    if not case_sensitive:
        wanted, text = wanted.lower(), text.lower()
    if match_whole_words and not any(blank in wanted for blank in BLANKS):
        return _has_word(text, wanted)
    return wanted in text


def _regex_matches(
    source: str, flags: str, text: str, case_sensitive: bool, timeout: float | None, warn: Warn | None
) -> bool:
    kept = ("i" if "i" in flags or not case_sensitive else "") + ("s" if "s" in flags else "")
    try:
        regex = JSRegex.compile(source, kept)
    except JSRegexSyntaxError as error:
        if warn is not None:
            warn(f"the pattern matches nothing: {error}")
        return False
    return regex.test(text, timeout=timeout, warn=warn)


def _has_word(text: str, word: str) -> bool:
    return any(
        text[at - 1 : at] not in _WORD and text[at + len(word) : at + len(word) + 1] not in _WORD
        for at in occurrences(text, word)
    )
