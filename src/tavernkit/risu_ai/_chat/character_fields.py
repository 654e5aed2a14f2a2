"""The fields of a character that only prompts need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, to_number
from tavernkit._values import EMPTY_OBJECT, FrozenObject
from tavernkit.risu_ai._objects import RisuCharacter

InlayView = Literal["", "emotion", "imggen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthPrompt:
    """A text at a depth of the finished prompt; a missing depth is not a number."""

    prompt: str
    depth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterFields:
    """A character's own prompt texts and switches."""

    system_prompt: str = ""
    replace_global_note: str = ""
    depth_prompt: DepthPrompt | None = None
    utility_bot: bool = False
    additional_text: str = ""
    inlay_view: InlayView = ""
    emotion_instructions: str = ""
    image_instructions: str = ""
    supa_memory: bool = False
    escape_output: bool = False
    scripts: tuple[FrozenObject, ...] = ()
    triggers: tuple[FrozenObject, ...] = ()
    low_level_access: bool = False


def character_fields(character: RisuCharacter) -> CharacterFields:
    """Read the fields of a character."""
    raw = character.raw
    depth, generation, view = _object(raw, "depth_prompt"), _object(raw, "newGenData"), _text(raw, "viewScreen")
    inlay: InlayView = ""
    if raw.get("inlayViewScreen"):
        inlay = "emotion" if view == "emotion" else "imggen" if view == "imggen" else ""
    return CharacterFields(
        system_prompt=_text(raw, "systemPrompt"),
        replace_global_note=_text(raw, "replaceGlobalNote"),
        depth_prompt=DepthPrompt(prompt=_text(depth, "prompt"), depth=to_number(depth.get("depth", UNDEFINED)))
        if depth
        else None,
        utility_bot=bool(raw.get("utilityBot")),
        additional_text=_text(raw, "additionalText"),
        inlay_view=inlay,
        emotion_instructions=_text(generation, "emotionInstructions"),
        image_instructions=_text(generation, "instructions"),
        supa_memory=bool(raw.get("supaMemory")),
        escape_output=bool(raw.get("escapeOutput")),
        scripts=_objects(raw, "customscript"),
        triggers=_objects(raw, "triggerscript"),
        low_level_access=bool(raw.get("lowLevelAccess")),
    )


def _text(value: FrozenObject, key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _object(value: FrozenObject, key: str) -> FrozenObject:
    found = value.get(key)
    return found if isinstance(found, Mapping) else EMPTY_OBJECT


def _objects(value: FrozenObject, key: str) -> tuple[FrozenObject, ...]:
    found = value.get(key)
    return tuple(each for each in found if isinstance(each, Mapping)) if isinstance(found, tuple) else ()
