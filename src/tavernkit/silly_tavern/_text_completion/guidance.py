"""Classifier-free guidance: a second prompt that steers the reply away from it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tavernkit._dataclass import dataclass
from tavernkit._text.json_reader import as_number
from tavernkit._text.traced import join
from tavernkit._values import EMPTY_OBJECT, is_mapping, is_sequence
from tavernkit.silly_tavern._files.chat_file import ChatMetadata

DEFAULT_DEPTH = 1
DEFAULT_SEPARATOR = "\n"

CHAT, CHARACTER, GLOBAL = 0, 1, 2
"""Where guidance is stored, by SillyTavern's numbers."""


@dataclass(frozen=True, slots=True)
class Guidance:
    """The guidance of a build. With a scale of 1 it is not in use."""

    scale: float = 1
    positive: str = ""
    negative: str = ""
    depth: int = DEFAULT_DEPTH

    @classmethod
    def of(cls, metadata: ChatMetadata, settings: Mapping[str, object], character_file: str) -> Guidance:
        """Return the guidance: the chat's own scale, else the character's, else the global one.

        The texts are those that belong to the scale, with those that the chat combines with them.

        Args:
            metadata: The chat's header.
            settings: ``extension_settings.cfg``.
            character_file: The name of the card's file without its extension.
        """
        stored = {
            CHAT: _Stored.of(metadata.source, "cfg_"),
            CHARACTER: _Stored.of(_of_character(settings.get("chara"), character_file)),
            GLOBAL: _Stored.of(settings.get("global")),
        }
        # A scale of 1 counts as none, so it does not switch off the guidance of the character or the global one.
        chosen = next((place for place in (CHAT, CHARACTER) if stored[place].scale != 1), GLOBAL)
        combined = {chosen, *_places(metadata.get("cfg_prompt_combine"))}
        texts = [stored[place] for place in (GLOBAL, CHARACTER, CHAT) if place in combined]
        separator = _separator(metadata.get("cfg_prompt_separator"))
        depth = as_number(metadata.get("cfg_prompt_insertion_depth"))
        return cls(
            scale=stored[chosen].scale,
            positive=join(separator, (each.positive for each in texts if each.positive)),
            negative=join(separator, (each.negative for each in texts if each.negative)),
            depth=DEFAULT_DEPTH if depth is None else int(depth),
        )

    @property
    def in_use(self) -> bool:
        """True if a second prompt is sent."""
        return self.scale != 1


@dataclass(frozen=True, slots=True)
class _Stored:
    scale: float
    positive: str
    negative: str

    @classmethod
    def of(cls, data: object, prefix: str = "") -> _Stored:
        found: Mapping[str, object] = data if is_mapping(data) else EMPTY_OBJECT
        scale = as_number(found.get(f"{prefix}guidance_scale"))
        positive, negative = found.get(f"{prefix}positive_prompt"), found.get(f"{prefix}negative_prompt")
        return cls(
            1 if scale is None else scale,
            positive if isinstance(positive, str) else "",
            negative if isinstance(negative, str) else "",
        )


def _of_character(listed: object, character_file: str) -> object:
    items = listed if is_sequence(listed) else ()
    return next((each for each in items if is_mapping(each) and each.get("name") == character_file), None)


def _places(combined: object) -> list[int]:
    numbers = [as_number(each) for each in combined] if is_sequence(combined) else []
    return [int(each) for each in numbers if each in (CHAT, CHARACTER, GLOBAL)]


def _separator(written: object) -> str:
    """Return the separator, which is stored as JSON text."""
    try:
        found: object = json.loads(written) if isinstance(written, str) and written else DEFAULT_SEPARATOR
    except (ValueError, RecursionError):
        return DEFAULT_SEPARATOR
    return found if isinstance(found, str) else DEFAULT_SEPARATOR
