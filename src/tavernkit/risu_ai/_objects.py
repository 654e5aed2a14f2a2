"""RisuAI's objects as its texts see them: characters, chats, personas, modules, settings.

Each has a ``from_json`` that reads the object as RisuAI stores it; ``raw`` keeps that object with all other data.
``None`` means that the field is missing, which is not the same as empty.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha1
from typing import NamedTuple

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim
from tavernkit._text.js_values.numbers import as_float
from tavernkit._values import EMPTY_OBJECT, FrozenJson, FrozenObject, freeze_object, is_mapping, is_sequence


class Asset(NamedTuple):
    """A media file of a character or module."""

    name: str
    path: str
    extension: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RisuMessage:
    """One message of a chat: ``role`` is ``user`` or ``char``, ``time`` is in milliseconds."""

    role: str
    data: str
    """The text."""
    time: float | None = None
    saying: str | None = None
    """The id of the group member who said it."""
    raw: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False)
    """The object as RisuAI stores it."""

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RisuMessage:
        """Read a stored message."""
        return cls(
            role=_text(data, "role") or "",
            data=_text(data, "data") or "",
            time=_number(data, "time"),
            saying=_text(data, "saying"),
            raw=freeze_object(data),
        )

    def to_json(self) -> dict[str, FrozenJson]:
        """Return the stored object, other keys and their order kept."""
        known: dict[str, FrozenJson] = {"role": self.role, "data": self.data}
        if self.saying is not None:
            known["saying"] = self.saying
        if self.time is not None:
            known["time"] = self.time
        return {**self.raw, **known}


@dataclass(frozen=True, slots=True, kw_only=True)
class RisuChat:
    """A chat: ``greeting_index`` is -1 for the first message, else an index into the alternate greetings."""

    id: str = ""
    """RisuAI's id of the chat."""
    messages: tuple[RisuMessage, ...] = ()
    """The messages, oldest first."""
    greeting_index: float | None = -1
    note: str = ""
    """The author's note."""
    local_lore: tuple[FrozenObject, ...] = ()
    """Lorebook entries of this chat only."""
    modules: tuple[str, ...] = ()
    """Ids of the modules that are switched on for the chat."""
    bound_persona: str | None = None
    """The id of the persona that the chat is bound to."""
    raw: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False)
    """The object as RisuAI stores it."""

    @property
    def name(self) -> str:
        """What the user calls it."""
        return _text(self.raw, "name") or ""

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RisuChat:
        """Read a stored chat. Its variables (``scriptstate``) are not included: they belong in a store."""
        return cls(
            id=_text(data, "id") or "",
            messages=tuple(RisuMessage.from_json(each) for each in _objects(data, "message") or ()),
            greeting_index=_number(data, "fmIndex"),
            note=_text(data, "note") or "",
            local_lore=_objects(data, "localLore") or (),
            modules=_texts(data, "modules") or (),
            bound_persona=_text(data, "bindedPersona"),
            raw=freeze_object(data),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RisuCharacter:
    """A character, or a group of characters (``is_group``)."""

    name: str = ""
    """The name."""
    nickname: str = ""
    """The value of ``{{char}}`` instead of the name, if there is one."""
    id: str = ""
    """RisuAI's id (``chaId``)."""
    is_group: bool = False
    description: str | None = ""
    """Who the character is."""
    personality: str | None = ""
    """A short summary of the personality."""
    scenario: str | None = ""
    """Where and when the chat takes place."""
    example_message: str | None = ""
    """Example dialogue."""
    first_message: str | None = ""
    """What the character says to open a chat."""
    alternate_greetings: tuple[str, ...] | None = ()
    """Other first messages to choose from."""
    default_variables: str = ""
    """Values of chat variables that are not set: lines of ``name=value``."""
    lore: tuple[FrozenObject, ...] | None = ()
    """Entries of the lorebook, as RisuAI stores them."""
    image: str = ""
    """The path of the main picture."""
    emotions: tuple[Asset, ...] | None = ()
    """Pictures by emotion."""
    assets: tuple[Asset, ...] | None = ()
    """Other media files."""
    modules: tuple[str, ...] = ()
    """Ids of the modules that are switched on for the character."""
    prebuilt_asset_command: bool = False
    """True to tell the model how to show the character's pictures."""
    prebuilt_asset_exclude: tuple[str, ...] = ()
    """Paths of assets that the model is not told about."""
    raw: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False)
    """The object as RisuAI stores it."""

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RisuCharacter:
        """Read a stored character or group."""
        return cls(
            name=_text(data, "name") or "",
            nickname=_text(data, "nickname") or "",
            id=_text(data, "chaId") or "",
            is_group=data.get("type") == "group",
            description=_text(data, "desc"),
            personality=_text(data, "personality"),
            scenario=_text(data, "scenario"),
            example_message=_text(data, "exampleMessage"),
            first_message=_text(data, "firstMessage"),
            alternate_greetings=_texts(data, "alternateGreetings"),
            default_variables=_text(data, "defaultVariables") or "",
            lore=_objects(data, "globalLore"),
            image=_text(data, "image") or "",
            emotions=_assets(data, "emotionImages"),
            assets=_assets(data, "additionalAssets"),
            modules=_texts(data, "modules") or (),
            prebuilt_asset_command=bool(data.get("prebuiltAssetCommand")),
            prebuilt_asset_exclude=_texts(data, "prebuiltAssetExclude") or (),
            raw=freeze_object(data),
        )

    @property
    def stored_chat(self) -> RisuChat | None:
        """Return the open chat; the first one if the file's choice does not exist, None without chats."""
        chats, page = _objects(self.raw, "chats") or (), _number(self.raw, "chatPage")
        opened = next((chat for index, chat in enumerate(chats) if index == page), next(iter(chats), None))
        return None if opened is None else RisuChat.from_json(opened)

    @property
    def stored_chats(self) -> tuple[RisuChat, ...]:
        """Return all chats of the file."""
        return tuple(RisuChat.from_json(chat) for chat in _objects(self.raw, "chats") or ())

    def opened(self, chat: RisuChat) -> RisuChat:
        """Return the chat as RisuAI opens it: without a greeting of its own, it gets the character's old choice."""
        if chat.greeting_index is not None:
            return chat
        index = _number(self.raw, "firstMsgIndex")
        return dataclasses.replace(chat, greeting_index=-1 if index is None else index)

    def greeting(self, index: float | None) -> str | None:
        """Return the greeting of a chat's ``greeting_index``; None if there is none."""
        if index == -1:
            return self.first_message
        greetings = self.alternate_greetings or ()
        if index is None or not 0 <= index < len(greetings) or index != int(index):
            return None
        return greetings[int(index)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RisuPersona:
    """A persona of the user."""

    id: str
    """RisuAI's id of the persona."""
    name: str | None = ""
    """The user's name."""
    prompt: str | None = ""
    """The description of the persona."""
    icon: str = ""
    """The path of the picture."""

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RisuPersona:
        """Read a stored persona."""
        return cls(
            id=_text(data, "id") or "",
            name=_text(data, "name"),
            prompt=_text(data, "personaPrompt"),
            icon=_text(data, "icon") or "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RisuModule:
    """A module: lore, assets and scripts that can be switched on together."""

    id: str
    """RisuAI's id of the module."""
    name: str = ""
    """What the module is called."""
    namespace: str | None = None
    """Another name by which presets refer to it."""
    lore: tuple[FrozenObject, ...] = ()
    """Entries of its lorebook, as RisuAI stores them."""
    assets: tuple[Asset, ...] | None = None
    """Its media files."""
    raw: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False)
    """The object as RisuAI stores it."""

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RisuModule:
        """Read a stored module."""
        return cls(
            id=_text(data, "id") or "",
            name=_text(data, "name") or "",
            namespace=_text(data, "namespace"),
            lore=_objects(data, "lorebook") or (),
            assets=_assets(data, "assets"),
            raw=freeze_object(data),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RisuCustomModel:
    """A model that the user defined (id ``xcustom:::...``), with RisuAI's numbers for format and tokenizer."""

    id: str
    name: str = ""
    internal_id: str = ""
    format: int = 0
    tokenizer: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RisuCustomModel:
        """Read a stored custom model."""
        return cls(
            id=_text(data, "id") or "",
            name=_text(data, "name") or "",
            internal_id=_text(data, "internalId") or "",
            format=whole_number(data.get("format"), 0),
            tokenizer=whole_number(data.get("tokenizer"), 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RisuSettings:
    """The part of RisuAI's database that texts can read. The defaults are those of an empty setup."""

    persona_prompt: str | None = ""
    main_prompt: str | None = ""
    jailbreak: str | None = ""
    global_note: str | None = ""
    jailbreak_toggle: bool = False
    model: str | None = ""
    sub_model: str | None = ""
    max_context: float | None = 4000
    language: str | None = "en"
    template_default_variables: str = ""
    modules: tuple[RisuModule, ...] = ()
    enabled_modules: tuple[str, ...] = ()
    integrated_modules: tuple[str, ...] = ()
    custom_models: tuple[RisuCustomModel, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RisuSettings:
        """Read RisuAI's database object."""
        integrated = (_text(data, "moduleIntergration") or "").split(",")
        return cls(
            persona_prompt=_text(data, "personaPrompt"),
            main_prompt=_text(data, "mainPrompt"),
            jailbreak=_text(data, "jailbreak"),
            global_note=_text(data, "globalNote"),
            jailbreak_toggle=bool(data.get("jailbreakToggle")),
            model=_text(data, "aiModel"),
            sub_model=_text(data, "subModel"),
            max_context=_number(data, "maxContext"),
            language=_text(data, "language"),
            template_default_variables=_text(data, "templateDefaultVariables") or "",
            modules=tuple(RisuModule.from_json(each) for each in _objects(data, "modules") or ()),
            enabled_modules=_texts(data, "enabledModules") or (),
            integrated_modules=tuple(name for name in map(trim, integrated) if name),
            custom_models=tuple(RisuCustomModel.from_json(each) for each in _objects(data, "customModels") or ()),
        )


def whole_number(value: object, default: int) -> int:
    """Return a whole number of a stored object; the default for anything else and for infinite numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    number = as_float(value)
    return int(number) if math.isfinite(number) else default


def _text(value: Mapping[str, object], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) else None


def _number(value: Mapping[str, object], key: str) -> float | None:
    found = value.get(key)
    return found if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def _texts(value: Mapping[str, object], key: str) -> tuple[str, ...] | None:
    found = value.get(key)
    return tuple(item for item in found if isinstance(item, str)) if is_sequence(found) else None


def _objects(value: Mapping[str, object], key: str) -> tuple[FrozenObject, ...] | None:
    found = value.get(key)
    return tuple(freeze_object(item) for item in found if is_mapping(item)) if is_sequence(found) else None


def _assets(value: Mapping[str, object], key: str) -> tuple[Asset, ...] | None:
    found = value.get(key)
    if not is_sequence(found):
        return None
    rows = (tuple(str(cell) for cell in row) for row in found if is_sequence(row) and len(row) >= 2)
    return tuple(Asset(row[0], row[1], row[2] if len(row) > 2 else "") for row in rows)


_NAMESPACE = bytes.fromhex("0d2d4f3c0f4f4d518a376a4d0f0f9b7e")


def made_id(kind: str, *parts: object) -> str:
    """Make an id for an object without one, the same in each build: a UUID of version 5 of distinguishing values.

    A chat has thousands of messages, and ``uuid.uuid5()`` takes three times as long.
    """
    text = "\n".join([kind, *map(str, parts)])
    # A text may contain a lone surrogate, which cannot be hashed.
    found = sha1(_NAMESPACE + text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(found[16], 16) & 3]
    return f"{found[:8]}-{found[8:12]}-5{found[13:16]}-{variant}{found[17:20]}-{found[20:32]}"
