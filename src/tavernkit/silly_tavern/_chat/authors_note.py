"""The author's note and the card's own note: settings, intervals, and additions by lore and persona."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import by_name_or_code
from tavernkit._text.js_values import to_number
from tavernkit._text.json_reader import JsonReader, as_number
from tavernkit._text.traced import join
from tavernkit._values import is_mapping
from tavernkit.cards._character import Character
from tavernkit.errors import ConfigError, Warn
from tavernkit.prompt._entry import role
from tavernkit.silly_tavern._files.chat_file import ChatMetadata

_POSITIONS = ("in_prompt", "in_chat", "before_prompt")
_POSITION_NAMES = {
    "in_chat": "in_chat",
    "chat": "in_chat",
    "inchat": "in_chat",
    "inchart": "in_chat",
    "in_prompt": "in_prompt",
    "prompt": "in_prompt",
    "after": "in_prompt",
    "after_scenario": "in_prompt",
    "scenario": "in_prompt",
    "before_prompt": "before_prompt",
    "before": "before_prompt",
    "before_scenario": "before_prompt",
}

REPLACE, BEFORE, AFTER = 0, 1, 2
"""How a character's own note is combined with the chat's."""


@dataclass(frozen=True, slots=True)
class CharacterNote:
    """A note that belongs to one character, by the name of the card's file without its extension."""

    name: str
    """The file name of the card, without its extension."""
    prompt: str
    """The text."""
    use: bool = False
    """True if the note is switched on."""
    position: int = REPLACE
    """How it is combined with the chat's note: 0 replaces it, 1 goes before it, 2 goes after it."""


@dataclass(frozen=True, slots=True)
class NoteSettings:
    """``extension_settings.note``: the defaults of new chats, and the characters' own notes."""

    default: str = ""
    """The author's note of new chats."""
    default_interval: int | float = 1
    """Insert the note every N user messages."""
    default_position: int | float = 1
    """Where it goes: 0 after the main prompt, 1 in the chat, 2 before the main prompt."""
    default_depth: int | float = 4
    """Messages between it and the end of the chat."""
    default_role: int | float = 0
    """Its role in the chat: 0 system, 1 user, 2 assistant."""
    allow_wi_scan: bool = False
    """True if the note and the card's depth prompt are scanned for lore keys."""
    characters: tuple[CharacterNote, ...] = ()
    """Notes that belong to single characters."""

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, warn: Warn) -> NoteSettings:
        """Read the settings object.

        Args:
            data: The object ``note`` of ``extension_settings``.
            warn: Called with each warning.
        """
        reader = JsonReader(data, "settings.note", warn)
        return cls(
            default=reader.text("default"),
            default_interval=reader.number("defaultInterval", 1),
            default_position=reader.number("defaultPosition", 1),
            default_depth=reader.number("defaultDepth", 4),
            default_role=reader.number("defaultRole", 0),
            allow_wi_scan=reader.flag("allowWIScan"),
            characters=tuple(
                _character_note(JsonReader(item, f"settings.note.chara[{index}]", warn))
                for index, item in enumerate(reader.objects("chara"))
            ),
        )


@dataclass(frozen=True, slots=True)
class AuthorsNote:
    """The note of one build. If it is not ``due``, its text is empty and nothing is added to it.

    With an invalid position, depth or role it is not shown.
    """

    text: str
    due: bool
    position: int | float
    depth: int | float
    role: int | float
    reason: str
    unused: Sequence[tuple[str, str]] = ()
    """Stored notes that are not in it: what each is, and why."""

    def placed(self, overrides: Mapping[str, int]) -> AuthorsNote:
        """Return the note with another place for this build."""
        return replace(self, **overrides) if overrides else self


def authors_note(
    metadata: ChatMetadata, settings: NoteSettings, user_messages: int, character_file: str | None
) -> AuthorsNote:
    """Return the note; ``user_messages`` counts all of the chat, including hidden ones and the new one."""
    interval = _or(metadata.note_interval, settings.default_interval)
    # With interval 1 the note is due even before the user has written anything.
    turns = 1 if interval == 1 else user_messages
    due = turns > 0 and interval > 0 and turns >= interval and turns % interval == 0
    prompt = metadata.note_prompt if metadata.note_prompt is not None else settings.default
    own = next((each for each in settings.characters if each.name == character_file), None)
    text = _with_character_note(prompt, own) if due else ""
    if interval <= 0:
        reason = "the author's note is switched off (its interval is 0)"
    elif due:
        reason = "due every turn" if interval == 1 else f"due every {interval} user messages"
    else:
        reason = f"the author's note is not due: {user_messages} user messages, interval {interval}"
    stored = "note_prompt of the chat's header" if metadata.note_prompt is not None else "the settings' default note"
    parts = _stored_in(prompt, stored, own)
    unused = [("Author's Note", reason)] if parts and not due else []
    if own is not None and own.prompt and not own.use:
        unused.append((f"{own.name}'s own note", "it is switched off (useChara)"))
    elif own is not None and own.use and own.position not in (BEFORE, AFTER) and prompt:
        unused.append((stored, f"{own.name}'s own note replaces it"))
    if due and parts:
        reason = f"{reason}, from {' and '.join(parts)}"
    return AuthorsNote(
        text=text,
        due=due,
        position=_or(metadata.note_position, settings.default_position),
        depth=_or(metadata.note_depth, settings.default_depth),
        role=_or(metadata.note_role, settings.default_role),
        reason=reason,
        unused=tuple(unused),
    )


def _stored_in(prompt: str, stored: str, own: CharacterNote | None) -> list[str]:
    """Return where the texts of a note are stored."""
    if own is None or not own.use:
        return [stored] if prompt else []
    parts = [f"{own.name}'s own note in the settings"] if own.prompt else []
    return [stored, *parts] if prompt and own.position in (BEFORE, AFTER) else parts


def read_overrides(given: object) -> Mapping[str, int]:
    """Read the place of the note for one build: ``position``, ``depth`` and ``role``, by name or number."""
    unknown = sorted(set(given) - set(_READ_OVERRIDE)) if is_mapping(given) else [repr(given)]
    if unknown or not is_mapping(given):
        raise ConfigError(f"authors_note is a mapping of {', '.join(_READ_OVERRIDE)}, not {', '.join(unknown)}")
    return {name: _override(name, value) for name, value in given.items() if value is not None}


def _override(name: str, value: object) -> int:
    read = _READ_OVERRIDE[name](value)
    if read is None:
        raise ConfigError(f"authors_note has no {name} {value!r}")
    return read


def _read_position(value: object) -> int | None:
    if value in (-1, "none"):
        return -1
    name = by_name_or_code(value, _POSITIONS, _POSITION_NAMES, None)
    return None if name is None else ("in_prompt", "in_chat", "before_prompt").index(name)


def _read_role(value: object) -> int | None:
    name = role(value, None)
    return ("system", "user", "assistant").index(name) if name in ("system", "user", "assistant") else None


def _read_depth(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_READ_OVERRIDE: Mapping[str, Callable[[object], int | None]] = {
    "position": _read_position,
    "depth": _read_depth,
    "role": _read_role,
}


def with_lore(note: str, top: Sequence[str], bottom: Sequence[str]) -> str:
    """Put lore entries around a note that is due.

    Only the outermost line breaks are removed: an empty note leaves an empty line between or before the entries.
    """
    if not top and not bottom:
        return note
    text = join("\n", top) + "\n" + note + "\n" + join("\n", bottom)
    return text.removeprefix("\n").removesuffix("\n")


def _with_character_note(note: str, own: CharacterNote | None) -> str:
    if own is None or not own.use:
        return note
    if own.position == BEFORE:
        return own.prompt + "\n" + note
    return note + "\n" + own.prompt if own.position == AFTER else own.prompt


def _character_note(reader: JsonReader) -> CharacterNote:
    return CharacterNote(
        name=reader.text("name"),
        prompt=reader.text("prompt"),
        use=reader.flag("useChara"),
        position=reader.integer("position", REPLACE),
    )


def _or(value: int | float | None, default: int | float) -> int | float:
    return default if value is None else value


DEFAULT_DEPTH = 4
ROLE_NUMBERS = {"system": 0, "user": 1, "assistant": 2}


@dataclass(frozen=True, slots=True)
class DepthPrompt:
    """A text, its depth and the number of its role."""

    text: str
    depth: int | float = DEFAULT_DEPTH
    role: int = 0


def depth_prompt_of(character: Character) -> DepthPrompt:
    """Return a card's depth prompt; its role may be a name or a number, anything else counts as system.

    With a depth that is not a number it is never shown.
    """
    found = character.extensions.get("depth_prompt")
    if not is_mapping(found):
        return DepthPrompt("")
    text, depth, role = found.get("prompt"), found.get("depth"), found.get("role")
    number = ROLE_NUMBERS.get(role, 0) if isinstance(role, str) else as_number(role)
    return DepthPrompt(
        text=text if isinstance(text, str) else "",
        depth=DEFAULT_DEPTH if depth is None else to_number(depth),
        role=int(number) if number in (0, 1, 2) else 0,
    )
