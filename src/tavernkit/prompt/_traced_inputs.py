"""Copies of a build's inputs whose texts are traced, for both platforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from tavernkit._dataclass import copy_with
from tavernkit._text.traced import Origin, collected, give, trace
from tavernkit._values import FrozenJson, LRUCache, is_mapping, is_sequence
from tavernkit.cards._character import CARD_FIELDS, Character, Participant, User, fields_home
from tavernkit.cards._fields import TEXT_FIELDS

T = TypeVar("T")

MAX_COPIES = 64
"""Cards, presets and settings whose traced copies are kept."""

NAMES = frozenset({"url", "image", "image_swipes", "video", "type", "id"})
"""Keys whose texts are names of things, not words for a prompt."""


class TracedCopies:
    """Traced copies of inputs, kept as long as the inputs are the same objects."""

    def __init__(self) -> None:
        self._made: LRUCache[tuple[object, ...], tuple[object, object, Sequence[Origin]]] = LRUCache(MAX_COPIES)

    def of(self, value: T | None, make: Callable[[T], T]) -> T | None:
        """Return the traced copy of a value.

        Args:
            value: The value, which does not change.
            make: Makes the copy; always the same function.
        """
        return self.of_more(value, make, ())

    def of_more(self, value: T | None, make: Callable[..., T], more: tuple[str, ...]) -> T | None:
        """Return the traced copy of a value that depends on more than the value.

        Args:
            value: The value, which does not change.
            make: Makes the copy; always the same function.
            more: What it gets besides the value.
        """
        if value is None:
            return None
        key = id(value), make, more
        known = self._made.get(key)
        if known is None or known[0] is not value:
            with collected() as origins:
                known = value, make(value, *more), origins
            self._made.put(key, known)
        give(known[2])
        return cast("T", known[1])


def traced_text(text: str, kind: str, name: str, pointer: str, title: str = "") -> str:
    """Trace a text to its place in an input."""
    return trace(text, Origin(kind, name, pointer, text, title)) if text else text


def traced_fields(value: object, kind: str, name: str, pointer: str, keys: Mapping[str, str]) -> dict[str, object]:
    """Trace texts of an object.

    Args:
        value: The object.
        kind: What it is.
        name: Which one it is.
        pointer: Where it is.
        keys: The fields that hold texts, and their keys in files.
    """
    found = {field: getattr(value, field) for field in keys}
    return {
        field: traced_text(text, kind, name, f"{pointer}/{keys[field]}")
        for field, text in found.items()
        if isinstance(text, str) and text
    }


def traced_json(value: FrozenJson, kind: str, name: str, pointer: str) -> FrozenJson:
    """Trace all texts in JSON, except names of things."""
    if isinstance(value, str):
        return traced_text(value, kind, name, pointer)
    if is_mapping(value):
        return {
            key: cast("FrozenJson", item)
            if key in NAMES
            else traced_json(cast("FrozenJson", item), kind, name, f"{pointer}/{escaped(key)}")
            for key, item in value.items()
        }
    if is_sequence(value):
        items = cast("tuple[FrozenJson, ...]", value)
        return tuple(traced_json(each, kind, name, f"{pointer}/{at}") for at, each in enumerate(items))
    return value


def traced_user(user: Participant) -> Participant:
    """Trace the user's name and persona."""
    if not isinstance(user, User):
        return user
    persona = traced_text(user.persona, "persona", user.name, "/persona")
    return User(traced_text(user.name, "user", user.name, "/name"), persona)


def traced_character(card: Character) -> Character:
    """Trace the texts of a card, except its book."""
    home, where = fields_home(card.raw)
    if not card.raw and card.version != "v1":  # made by a program: use the place where it would be saved
        where = "/data"
    changes: dict[str, object] = {}
    for key in TEXT_FIELDS:
        text: str = getattr(card, key)
        if text:
            field = next(each for each in CARD_FIELDS if each.key == key)
            written = next((name for name in (key, *field.aliases) if home.get(name) == text), key)
            changes[key] = traced_text(text, "card", card.name, f"{where}/{written}")
    changes["alternate_greetings"] = tuple(
        traced_text(text, "card", card.name, f"{where}/alternate_greetings/{index}")
        for index, text in enumerate(card.alternate_greetings)
    )
    if card.nickname:
        changes["nickname"] = traced_text(card.nickname, "card", card.name, f"{where}/nickname")
    depth_prompt = card.extensions.get("depth_prompt")
    if depth_prompt is not None:
        pointer = f"{where}/extensions/depth_prompt"
        changes["extensions"] = {
            **card.extensions,
            "depth_prompt": traced_json(depth_prompt, "card", card.name, pointer),
        }
    return twin(card, changes)


def twin(value: T, changes: Mapping[str, object]) -> T:
    """Copy a frozen object with some fields changed, without checking them again."""
    if hasattr(value, "__dict__"):
        copied = object.__new__(type(value))
        copied.__dict__.update(value.__dict__, **changes)
        return copied
    return copy_with(value, **changes)


def escaped(key: str) -> str:
    """Escape a key for a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
