"""Characters and users: one typed value for cards of all versions, with the list of its assets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_number
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    is_mapping,
    is_sequence,
    shown,
    thaw,
    thaw_object,
)
from tavernkit.cards._book import CharacterBook, read_book, write_book
from tavernkit.cards._fields import (
    Field,
    Fields,
    empty_object,
    frozen,
    ignore,
    kind,
    no_texts,
    read_date,
    read_object,
    read_optional_text,
    read_tags,
    read_text,
    read_text_map,
    read_texts,
)
from tavernkit.cards._kinds import kind_of
from tavernkit.cards.errors import NotACardError, VersionWarning
from tavernkit.errors import ConfigError, Warn, log_warning

CardVersion: TypeAlias = Literal["v1", "v2", "v3"]
"""The version of the card specification."""

SPECS: Mapping[str, CardVersion] = MappingProxyType({"chara_card_v2": "v2", "chara_card_v3": "v3"})
"""The text in a card's ``spec`` and its version; V1 has none."""

SPEC_VERSIONS: Mapping[CardVersion, str] = MappingProxyType({"v2": "2.0", "v3": "3.0"})
"""What we write in ``spec_version``."""

DEFAULT_TALKATIVENESS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Character:
    """A character card of any version, as one typed value.

    ``raw`` is the card it was read from. ``to_card()`` starts from it, so ``extensions`` and unknown fields at every
    level survive; ``tavernkit.cards.convert()`` changes the version.
    """

    name: str
    """The character's name, the value of ``{{char}}``."""
    description: str = ""
    """Who the character is. Nearly every prompt contains it."""
    personality: str = ""
    """A short summary of the personality."""
    scenario: str = ""
    """Where and when the chat takes place."""
    first_mes: str = ""
    """The first message: what the character says to open a chat."""
    mes_example: str = ""
    """Example dialogue; ``<START>`` begins each example."""
    creator_notes: str = ""
    """The creator's notes for users. They are never sent to a model."""
    system_prompt: str = ""
    """Replaces the main prompt of the preset; ``{{original}}`` stands for that prompt."""
    post_history_instructions: str = ""
    """Replaces the instructions after the chat (jailbreak); ``{{original}}`` stands for those."""
    alternate_greetings: tuple[str, ...] = ()
    """Other first messages to choose from."""
    character_book: CharacterBook | None = None
    """The lorebook inside the card."""
    tags: tuple[str, ...] = ()
    """Labels for searching, and for lore that applies to some tags only."""
    creator: str = ""
    """Who made the card."""
    character_version: str = ""
    """The creator's version of the card, as free text."""
    extensions: FrozenObject = dataclasses.field(default_factory=empty_object)
    assets: tuple[AssetEntry, ...] | None = None
    """The card's list of pictures and sounds (V3); None if the card has no such list."""
    nickname: str | None = None
    """The value of ``{{char}}`` instead of ``name`` (V3)."""
    creator_notes_multilingual: Mapping[str, str] = dataclasses.field(default_factory=no_texts)
    """The creator's notes by language code (V3)."""
    source: tuple[str, ...] = ()
    """Where the card came from: ids or addresses (V3)."""
    group_only_greetings: tuple[str, ...] = ()
    """First messages for group chats only (V3)."""
    creation_date: int | None = None
    """When the card was made, in Unix seconds (V3)."""
    modification_date: int | None = None
    """When the card was last changed, in Unix seconds (V3)."""
    version: CardVersion = "v3"
    """The version of the card format."""
    raw: FrozenObject = dataclasses.field(default_factory=empty_object)
    pristine: bool = dataclasses.field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("alternate_greetings", "tags", "source", "group_only_greetings"):
            value: object = getattr(self, name)
            if isinstance(value, str):
                raise ConfigError(f"{name} must be a list: pass {name}=[{value!r:.40}]")
            if isinstance(value, Iterable):
                object.__setattr__(self, name, tuple(value))
        object.__setattr__(self, "extensions", frozen(self.extensions))

    @classmethod
    def from_card(cls, card: object, *, warn: Warn = log_warning) -> Character:
        """Read a card (parsed JSON) of any version; raises ``NotACardError`` if it is not a card.

        Args:
            card: The card's JSON, of any version.
            warn: Called with each warning.
        """
        version = card_version(card, warn=warn)
        assert is_mapping(card)
        raw = frozen(card)
        home, where = fields_home(raw)
        character = CARD_FIELDS.make(cls, home, where, warn, version=version, raw=raw)
        outer_name = raw.get("name")
        if not character.name and home is not raw and isinstance(outer_name, str):
            warn(f"{where}/name is missing; the name next to data was used")
            object.__setattr__(character, "name", outer_name)
        if not character.name.strip():
            warn(f"{where}/name is missing: the character has no name")
        return character

    def to_card(self) -> JsonObject:
        """Write the card in the character's own version; unchanged fields stay as they were read."""
        if not self.raw:
            return self._new_card()
        if self.pristine:
            return thaw_object(self.raw)
        home, where = fields_home(self.raw)
        written = CARD_FIELDS.write(self, Character.from_card(self.raw, warn=ignore), home)
        if not where:
            return written
        card: JsonObject = {key: written if key == "data" else thaw(value) for key, value in self.raw.items()}
        for field in CARD_FIELDS:  # SillyTavern repeats some fields outside of data; update the copies
            if field.key in card and written.get(field.key) != thaw(home.get(field.key)):
                card[field.key] = written.get(field.key)
        return card

    def _new_card(self) -> JsonObject:
        required = REQUIRED[self.version]
        data: JsonObject = {}
        for field in CARD_FIELDS:
            value: object = getattr(self, field.key)
            if field.key in required or value != field.default:
                data[field.key] = field.write(value)
        if self.version == "v1":
            return data
        return {"spec": f"chara_card_{self.version}", "spec_version": SPEC_VERSIONS[self.version], "data": data}

    def replace(self, **changes: Any) -> Character:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def display_name(self) -> str:
        """The nickname if there is one, else the name: the value of ``{{char}}``."""
        return self.nickname or self.name

    @property
    def persona_text(self) -> str:
        """Description and personality, for a character that speaks as the user."""
        return "\n\n".join(text for text in (self.description, self.personality) if text)

    @property
    def all_greetings(self) -> tuple[str, ...]:
        """The first message and its alternatives, without empty ones."""
        return tuple(text for text in (self.first_mes, *self.alternate_greetings) if text)

    @property
    def group_greetings(self) -> tuple[str, ...]:
        """Greetings for group chats: all greetings and those for groups only."""
        return (*self.all_greetings, *(text for text in self.group_only_greetings if text))

    def creator_notes_for(self, language: str) -> str:
        """The creator's notes in a language (ISO 639-1), else in English, else the plain ones."""
        notes = self.creator_notes_multilingual
        return notes.get(language) or notes.get("en") or self.creator_notes

    @property
    def main_icon(self) -> AssetEntry | None:
        """The asset that is the character's picture: the icon named main, else the first icon."""
        return _main(self.assets or (), "icon")

    @property
    def main_background(self) -> AssetEntry | None:
        """The background named main, else the first background."""
        return _main(self.assets or (), "background")

    def talkativeness(self, default: float = DEFAULT_TALKATIVENESS) -> float:
        """How often the character speaks in a group, from 0 to 1 (``extensions.talkativeness``)."""
        value = self.extensions.get("talkativeness")
        number = math.nan if value is None else to_number(value)
        return default if math.isnan(number) else number

    @property
    def world_name(self) -> str | None:
        """The SillyTavern world book the character is linked to (``extensions.world``)."""
        world = self.extensions.get("world")
        return world if isinstance(world, str) and world else None


def card_version(card: object, *, warn: Warn = log_warning) -> CardVersion:
    """Return the version of a card; raises ``NotACardError``, which says what it looks like.

    Args:
        card: A card's JSON object.
        warn: Called with each warning; by default they are logged.
    """
    if not is_mapping(card):
        raise NotACardError(f"a card must be a JSON object, not {kind(card)}")
    spec = card.get("spec")
    if isinstance(spec, str) and spec in SPECS:
        _check_spec_version(card, SPECS[spec], warn)
        return SPECS[spec]
    data = card.get("data")
    if is_mapping(data) and ("spec" in card or "name" in data):
        version = "v3" if to_number(card.get("spec_version")) >= 3 else "v2"
        message = f"/spec is {shown(spec)}, which is not known; the card was read as {version.upper()}"
        warn(VersionWarning(message) if isinstance(spec, str) else message)
        return version
    if any(key in card for key in ("name", "char_name")) and not _is_book(card):
        return "v1"
    raise NotACardError(f"this is not a character card: {_looks_like(card)}")


def fields_home(raw: FrozenObject) -> tuple[FrozenObject, str]:
    """The object that has a card's fields, and its JSON pointer."""
    data = raw.get("data")
    if is_mapping(data) and ("spec" in raw or "name" in data):
        return frozen(data), "/data"
    return raw, ""


def _check_spec_version(card: Mapping[str, object], version: CardVersion, warn: Warn) -> None:
    stated = card.get("spec_version")
    if stated != SPEC_VERSIONS[version]:
        newer = isinstance(stated, str) and to_number(stated) > to_number(SPEC_VERSIONS[version])
        why = "is newer than the versions known here" if newer else "does not fit the spec"
        message = f"/spec_version {shown(stated)} {why}; the card was read as {version.upper()}"
        warn(VersionWarning(message) if newer else message)
    if not is_mapping(card.get("data")):
        warn("/data is missing; the fields next to it were used")


def _is_book(card: Mapping[str, object]) -> bool:
    """Return True for a lorebook, which may have a name and a description, but no other fields of a card."""
    own = ("personality", "scenario", "first_mes", "mes_example", "char_name")
    return (is_mapping(card.get("entries")) or is_sequence(card.get("entries"))) and not any(key in card for key in own)


def _looks_like(card: Mapping[str, object]) -> str:
    kind = kind_of(card)
    if kind is not None:
        return f"it looks like {kind.with_article}"
    return f"its type is {shown(card['type'])}" if "type" in card else "it has no spec, name or char_name"


def _main(assets: Iterable[AssetEntry], type_: str) -> AssetEntry | None:
    found = [asset for asset in assets if asset.type == type_]
    return next((asset for asset in found if asset.name.lower() == "main"), found[0] if found else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetEntry:
    """One item of a card's ``assets``; ``uri`` says where the bytes are."""

    type: str = ""
    """What it is for: ``icon``, ``emotion``, ``background``, ``user_icon`` or a custom name."""
    uri: str = ""
    name: str = ""
    """The name by which the card refers to it."""
    ext: str = ""
    """The file ending, without the dot."""
    raw: FrozenObject = dataclasses.field(default_factory=empty_object)
    """The JSON that it was read from; unknown keys survive."""
    pristine: bool = dataclasses.field(default=False, init=False, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, where: str = "", warn: Warn = log_warning) -> AssetEntry:
        """Read one element of ``assets``.

        Args:
            data: The element.
            where: Its location in the file, for warnings.
            warn: Called with each warning.
        """
        raw = frozen(data)
        return ASSET_FIELDS.make(cls, raw, where, warn, raw=raw)

    def to_json(self) -> JsonObject:
        """Write the element; unchanged fields stay as they were read."""
        if self.pristine:
            return thaw_object(self.raw)
        return ASSET_FIELDS.write(self, AssetEntry.from_json(self.raw, warn=ignore), self.raw)

    def replace(self, **changes: Any) -> AssetEntry:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def read_assets(value: object, where: str, warn: Warn) -> tuple[AssetEntry, ...] | None:
    """Read a card's ``assets``; absent is not the same as empty (absent means the default icon)."""
    if value is None:
        return None
    if not is_sequence(value):
        warn(f"{where} is {kind(value)} where a list is expected; it was left out")
        return None
    entries: list[AssetEntry] = []
    for index, item in enumerate(value):
        if is_mapping(item):
            raw = frozen(item)
            entries.append(ASSET_FIELDS.make(AssetEntry, raw, f"{where}/{index}", warn, raw=raw))
        else:
            warn(f"{where}/{index} is {kind(item)} where an asset is expected; it was left out")
    return tuple(entries)


def write_assets(assets: object) -> Json:
    """Write a card's ``assets``."""
    if not is_sequence(assets):
        return None
    return [asset.to_json() for asset in assets if isinstance(asset, AssetEntry)]


ASSET_FIELDS = Fields(
    Field("type", "", read_text),
    Field("uri", "", read_text),
    Field("name", "", read_text),
    Field("ext", "", read_text),
)


V1_FIELDS = Fields(
    Field("name", "", read_text, aliases=("char_name",)),
    Field("description", "", read_text, aliases=("char_persona", "context")),
    Field("personality", "", read_text),
    Field("scenario", "", read_text, aliases=("world_scenario",)),
    Field("first_mes", "", read_text, aliases=("char_greeting", "greeting")),
    Field("mes_example", "", read_text, aliases=("example_dialogue",)),
)
"""What every version has; the aliases are those of Pygmalion's old JSON and of text-generation YAML."""

V2_FIELDS = Fields(
    Field("creator_notes", "", read_text, aliases=("creatorcomment",)),
    Field("system_prompt", "", read_text),
    Field("post_history_instructions", "", read_text),
    Field("alternate_greetings", (), read_texts),
    Field("character_book", None, read_book, write_book),
    Field("tags", (), read_tags),
    Field("creator", "", read_text),
    Field("character_version", "", read_text),
    Field("extensions", EMPTY_OBJECT, read_object),
)
"""What V2 added."""

V3_FIELDS = Fields(
    Field("assets", None, read_assets, write_assets),
    Field("nickname", None, read_optional_text),
    Field("creator_notes_multilingual", no_texts(), read_text_map),
    Field("source", (), read_texts),
    Field("group_only_greetings", (), read_texts),
    Field("creation_date", None, read_date),
    Field("modification_date", None, read_date),
)
"""What V3 added."""

CARD_FIELDS = Fields(*V1_FIELDS, *V2_FIELDS, *V3_FIELDS)

_V1_KEYS = tuple(field.key for field in V1_FIELDS)
_V2_KEYS = (*_V1_KEYS, *(field.key for field in V2_FIELDS if field.key != "character_book"))

REQUIRED: Mapping[CardVersion, tuple[str, ...]] = MappingProxyType(
    {"v1": _V1_KEYS, "v2": _V2_KEYS, "v3": (*_V2_KEYS, "group_only_greetings")}
)
"""The keys that a card of a version must have, in ``data`` or, for V1, at the top."""


class Participant(Protocol):
    """A participant of a chat; a character can be the user."""

    @property
    def name(self) -> str:
        """The name shown."""
        ...

    @property
    def persona_text(self) -> str:
        """Who they are, for the prompt."""
        ...


@dataclass(frozen=True, slots=True)
class User:
    """The user's side of a chat."""

    name: str
    """The user's name, the value of ``{{user}}``."""
    persona: str = ""
    """The description of the user's persona."""

    @property
    def persona_text(self) -> str:
        """The persona's description."""
        return self.persona
