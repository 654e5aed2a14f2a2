"""A group chat: its settings in SillyTavern's format, what its members have besides cards, and their cards joined."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_number, trim, truthy
from tavernkit._text.json_reader import json_object
from tavernkit._text.traced import join, substitute
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_mapping,
    is_sequence,
    thaw_object,
)
from tavernkit.cards._character import Character
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._kinds import warn_if_mistaken
from tavernkit.cards._source import FileContent, called, read_file
from tavernkit.errors import FileFormatError, Warn, log_warning, refuse_warning
from tavernkit.prompt._inputs import GroupDecision
from tavernkit.silly_tavern._chat.authors_note import DepthPrompt, depth_prompt_of
from tavernkit.silly_tavern._limits import MAX_GROUP_BYTES
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScripts
from tavernkit.silly_tavern._world_info.book import WorldBook

ActivationStrategy: TypeAlias = Literal["natural", "list", "manual", "pooled"]
GenerationMode: TypeAlias = Literal["swap", "append", "append_disabled"]

STRATEGIES: tuple[ActivationStrategy, ...] = ("natural", "list", "manual", "pooled")
"""Activation strategies in the order of their numbers in files."""

MODES: tuple[GenerationMode, ...] = ("swap", "append", "append_disabled")
"""Generation modes in the order of their numbers in files."""

DEFAULT_TALKATIVENESS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterExtras:
    """Books, tags and regex scripts of a group's member, used while the member speaks."""

    books: Sequence[WorldBook] = ()
    """Lorebooks linked to the member."""
    tags: Sequence[str] = ()
    """Tags of the member, for entries that are limited to some."""
    regex_scripts: RegexScripts | None = None
    """Regex scripts of the member's card; None for those of the build."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A character of a group; ``avatar`` is its id."""

    avatar: str
    character: Character

    @property
    def name(self) -> str:
        """The character's name."""
        return self.character.name

    @property
    def talkativeness(self) -> float:
        """How likely the character speaks; a missing or invalid value counts as one half."""
        extensions = self.character.extensions
        if "talkativeness" not in extensions:
            return DEFAULT_TALKATIVENESS
        value = to_number(extensions["talkativeness"])
        return DEFAULT_TALKATIVENESS if value != value else value  # only NaN differs from itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group: its members by avatar, who is muted, how speakers are chosen and how cards are joined.

    ``activation_strategy`` is None for a number that SillyTavern does not know: then nobody speaks unprompted.
    ``source`` keeps the file's own object for ``to_json()``.
    """

    id: str = ""
    """The id of the group."""
    name: str = ""
    """What the group is called."""
    members: Sequence[str] = ()
    """File names of the members' cards, in order."""
    disabled_members: Sequence[str] = ()
    """File names of the members that are muted."""
    activation_strategy: ActivationStrategy | None = "natural"
    generation_mode: GenerationMode = "swap"
    """``swap`` sends the speaker's card only, ``append`` joins all cards, ``append_disabled`` muted ones too."""
    allow_self_responses: bool = False
    """True if a member may answer its own message."""
    join_prefix: str = ""
    """The text before each joined part of a card."""
    join_suffix: str = ""
    """The text after each joined part of a card."""
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Group:
        """Read a group object."""
        data = json_object(data, "group")
        return cls(
            id=_text(data.get("id")),
            name=_text(data.get("name")),
            members=_texts(data.get("members")),
            disabled_members=_texts(data.get("disabled_members")),
            activation_strategy=_strategy(data.get("activation_strategy")),
            generation_mode=_mode(data.get("generation_mode")),
            allow_self_responses=truthy(data.get("allow_self_responses")),
            join_prefix=_text(data.get("generation_mode_join_prefix")),
            join_suffix=_text(data.get("generation_mode_join_suffix")),
            source=freeze_object(data),
        )

    @classmethod
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> Group:
        """Read a group file.

        Args:
            source: The file: its path or its content.
            warn: Called with each warning.
            strict: Raise an error instead of warning.

        Raises:
            FileFormatError: The file is not a JSON object.
        """
        content = read_file(source, MAX_GROUP_BYTES, limit="MAX_GROUP_BYTES")
        warn = refuse_warning if strict else warn
        data = parse_json(content, what=called(source), warn=warn)
        if not is_mapping(data):
            raise FileFormatError(f"{called(source)}: a group is a JSON object, not {type(data).__name__}")
        warn_if_mistaken(data, "a group", what=called(source), warn=warn)
        return cls.from_json(data)

    def to_json(self) -> JsonObject:
        """Return the group in file format, with all changes and unknown keys."""
        plain = thaw_object(self.source)
        then = Group.from_json(self.source)
        for ours, theirs, encode in _FIELDS:
            value: object = getattr(self, ours)
            if value != getattr(then, ours) or (not self.source and ours in _ALWAYS):
                plain[theirs] = encode(value)
        return plain

    def replace(self, **changes: object) -> Group:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    @property
    def enabled_members(self) -> list[str]:
        """Members that are not muted, in order."""
        muted = set(self.disabled_members)
        return [member for member in self.members if member not in muted]


def _strategy(value: object) -> ActivationStrategy | None:
    number = 0.0 if value is None else to_number(value)
    return STRATEGIES[int(number)] if number in range(len(STRATEGIES)) else None


def _mode(value: object) -> GenerationMode:
    # Any value that is true joins cards; only the number 2 includes muted members.
    if value == 2 and not isinstance(value, bool):
        return "append_disabled"
    return "append" if truthy(value) else "swap"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if is_sequence(value) else ()


def _same(value: object) -> Json:
    return value  # pyright: ignore[reportReturnType]  # texts and flags


def _listed(value: object) -> Json:
    return [str(item) for item in value] if is_sequence(value) else []


def _strategy_number(value: object) -> Json:
    return STRATEGIES.index(value) if value in STRATEGIES else None


def _mode_number(value: object) -> Json:
    return MODES.index(value) if value in MODES else 0


_FIELDS = (
    ("id", "id", _same),
    ("name", "name", _same),
    ("members", "members", _listed),
    ("disabled_members", "disabled_members", _listed),
    ("activation_strategy", "activation_strategy", _strategy_number),
    ("generation_mode", "generation_mode", _mode_number),
    ("allow_self_responses", "allow_self_responses", _same),
    ("join_prefix", "generation_mode_join_prefix", _same),
    ("join_suffix", "generation_mode_join_suffix", _same),
)
_ALWAYS = frozenset(ours for ours, _, _ in _FIELDS)


@dataclass(frozen=True, slots=True)
class GroupChat:
    """A group with the members whose cards are known, in order; ``speaker`` is an avatar."""

    group: Group
    members: tuple[GroupMember, ...] = ()
    speaker: str | None = None

    @classmethod
    def of(cls, group: Group, cards: Mapping[str, Character], speaker: str | None = None) -> GroupChat:
        """Find the members among cards by avatar; others are ignored."""
        return cls(group, tuple(GroupMember(each, cards[each]) for each in group.members if each in cards), speaker)

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names."""
        return tuple(member.name for member in self.members)

    @property
    def names_not_muted(self) -> tuple[str, ...]:
        """The names of the members who are not muted."""
        muted = frozenset(self.group.disabled_members)
        return tuple(member.name for member in self.members if member.avatar not in muted)

    @property
    def joins_cards(self) -> bool:
        """True if the members' cards are joined; otherwise only the speaker's is used."""
        return self.group.generation_mode != "swap" and bool(self.group.members)

    def heard(self, *, with_muted: bool) -> list[GroupMember]:
        """Return the members whose cards are used: always the speaker's, muted ones only on request."""
        muted = frozenset[str]() if with_muted else frozenset(self.group.disabled_members) - {self.speaker}
        return [member for member in self.members if member.avatar not in muted]


def settings_fingerprint(group: Group) -> str:
    """SHA-256 of the settings that decide who speaks and how cards are joined, for traces."""
    return _digest(
        group.members,
        group.disabled_members,
        group.activation_strategy,
        group.generation_mode,
        group.allow_self_responses,
        group.join_prefix,
        group.join_suffix,
    )


def _digest(*values: object) -> str:
    return hashlib.sha256(json.dumps(values, default=list).encode()).hexdigest()


def reconcile(given: GroupDecision | None, computed: GroupDecision | None, warn: Warn) -> GroupDecision | None:
    """Return the application's decision; warn if the group's rules decide differently."""
    if given is None or computed is None:
        return given or computed
    if tuple(given.activated) != tuple(computed.activated):
        warn(
            f"group decision mismatch: the application chose {list(given.activated)}, "
            f"the {computed.strategy or 'unknown'} strategy gives {list(computed.activated)}; the application's is used"
        )
    return given


START = "<START>"
"""What separates blocks of example dialogue."""

_FIELD_NAME = re.compile("<FIELDNAME>", re.IGNORECASE | re.ASCII)

JoinedField: TypeAlias = Literal["description", "personality", "scenario", "mes_example"]
"""A card field that groups join."""

_TITLES: dict[JoinedField, str] = {
    "description": "Description",
    "personality": "Personality",
    "scenario": "Scenario",
    "mes_example": "Example Messages",
}

ExpandCardText: TypeAlias = Callable[[str, str | None], str]
"""Expands a card's text: ``(text, character name)``; without a name ``{{char}}`` is the current speaker."""


@dataclass(frozen=True, slots=True)
class JoinedFields:
    """Fields of a group's members joined into one card, expanded."""

    description: str
    personality: str
    scenario: str
    examples: str


def merge_cards(
    chat: GroupChat, *, expand: ExpandCardText, scenario_override: str = "", examples_override: str = ""
) -> JoinedFields | None:
    """Join the members' fields; None if the group swaps cards. Overrides replace the joined texts."""
    if not chat.joins_cards:
        return None
    return JoinedFields(
        description=join_field(chat, "description", expand),
        personality=join_field(chat, "personality", expand),
        scenario=join_field(chat, "scenario", expand, scenario_override),
        examples=join_field(chat, "mes_example", expand, examples_override),
    )


def join_field(chat: GroupChat, field: JoinedField, expand: ExpandCardText, override: str = "") -> str:
    """Join one field of the members, each between the group's prefix and suffix, unless the chat has its own."""
    own = trim(override)
    if own and (text := expand(own, None)):
        return text
    with_muted = chat.group.generation_mode == "append_disabled"
    chunks = [_chunk(chat, member, field, expand) for member in chat.heard(with_muted=with_muted)]
    return join("\n", (chunk for chunk in chunks if chunk))


def group_depth_prompts(chat: GroupChat, *, expand: ExpandCardText) -> list[DepthPrompt]:
    """Return the members' own depth prompts; empty if the group swaps cards."""
    if not chat.joins_cards:
        return []
    prompts: list[DepthPrompt] = []
    # Muted members are left out in every mode, although ``append_disabled`` joins their cards.
    for member in chat.heard(with_muted=False):
        written = depth_prompt_of(member.character)
        text = expand(trim(written.text), member.name)
        if text:
            prompts.append(DepthPrompt(text, written.depth, written.role))
    return prompts


def _chunk(chat: GroupChat, member: GroupMember, field: JoinedField, expand: ExpandCardText) -> str:
    written: str = getattr(member.character, field)
    value = trim(written)
    if not value:
        return ""
    if field == "mes_example" and not value.startswith(START):
        value = START + "\n" + value
    # The card's own text may name its field, too. Prefix and suffix stay if the text expands to nothing.
    texts = (
        substitute(_FIELD_NAME, _TITLES[field], text)
        for text in (chat.group.join_prefix, value, chat.group.join_suffix)
    )
    return join("", (expand(text, member.name) for text in texts if text))
