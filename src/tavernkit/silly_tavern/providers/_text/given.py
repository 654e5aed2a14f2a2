"""Inputs of the page's body for text completion, and its sampler settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING, TypeGuard, cast

from tavernkit._dataclass import dataclass
from tavernkit._lazy import read_data
from tavernkit._text.js_values import JSSyntaxError, json_parse, trim
from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, thaw
from tavernkit.errors import Warn, log_warning

if TYPE_CHECKING:
    from tavernkit.silly_tavern._text_completion.plan import TextPlan

TEXTGEN_SETTINGS = "textgenerationwebui_settings"
SINGLE_REPLY_TYPES = ("continue", "impersonate", "quiet")
"""Generation types that always request one reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextInput:
    """Inputs of the page's body besides the sampler settings.

    Args:
        prompt: The finished prompt.
        max_tokens: The length of the reply.
        max_context: The size of the context.
        stop_strings: The finished stop strings.
        generation_type: ``normal``, ``continue``, ``impersonate``, ``quiet``, …
        server: The address of the user's own backend; hosted backends have theirs.
        stream: True to stream the reply (Kobold and NovelAI have a setting for that).
        token_probabilities: True if the page requests token probabilities.
        guidance_scale: The chat's CFG scale, if it has one.
        negative_prompt: The chat's negative prompt, if it has one.
        banned_words: Words banned by macros of the prompt (``{{banned}}``).
        features: The detected features of a Kobold server (``can_use_min_p``, …).
        unlimited: True if NovelAI's highest subscription is active, which allows longer replies.
        expand: Expands the macros in a text of the settings.
        tokenize: Returns the token ids of a text by the backend's tokenizer. Without it, bans, biases and NovelAI's
            stop strings that are words are left out with a warning.
        random: Makes the seed of backends that always get one.
    """

    prompt: str
    max_tokens: int
    max_context: int
    stop_strings: Sequence[str] = ()
    generation_type: str = "normal"
    server: str = ""
    stream: bool = False
    token_probabilities: bool = False
    guidance_scale: float | None = None
    negative_prompt: str | None = None
    banned_words: Sequence[str] = ()
    features: Collection[str] = ()
    unlimited: bool = False
    expand: Callable[[str], str] = str
    tokenize: Callable[[str], Sequence[int]] | None = None
    random: Random | None = None
    warn: Warn = log_warning
    """Called with each warning."""

    @classmethod
    def from_plan(cls, plan: TextPlan, *, server: str = "", generation_type: str = "") -> TextInput:
        """Use the prompt, its stop strings, the lengths and the guidance of a plan.

        Args:
            plan: The plan of a text build.
            server: The address of the user's own backend.
            generation_type: The generation type of the plan, if the plan does not have it.
        """
        guided = plan.guidance_scale != 1
        known = plan.text_input or cls(prompt="", max_tokens=0, max_context=0)
        kind = generation_type or known.generation_type
        return replace(
            known,
            prompt=plan.prompt,
            max_tokens=int(number(thaw(plan.llm_options.get("max_tokens")))),
            max_context=int(number(thaw(plan.llm_options.get("truncation_length")))),
            stop_strings=plan.stop_strings,
            generation_type=kind,
            server=server,
            stream=_streams(plan) and kind != "quiet",
            guidance_scale=plan.guidance_scale if guided else None,
            negative_prompt=plan.negative_prompt if guided else None,
        )


def _streams(plan: TextPlan) -> bool:
    """Return the user's switch; Kobold's is read with its other settings."""
    key, switch = ("nai_settings", "streaming_novel") if plan.backend == "novelai" else (TEXTGEN_SETTINGS, "streaming")
    settings = plan.text_settings.get(key)
    return is_mapping(settings) and settings.get(switch) is True


@cache
def _defaults() -> Mapping[str, JsonObject]:
    text = read_data("tavernkit.silly_tavern.providers", "text_settings.json")
    return cast("Mapping[str, JsonObject]", json.loads(text))


def with_defaults(kind: str, settings: Mapping[str, Json]) -> JsonObject:
    """Return settings merged over SillyTavern's defaults; ``kind`` is ``text``, ``kobold`` or ``novelai``."""
    return {**_defaults()[kind], **settings}


def copied_fields(settings: Mapping[str, Json], fields: Mapping[str, str]) -> JsonObject:
    """Return the existing settings, by their names in a body."""
    return {name: settings[setting] for name, setting in fields.items() if setting in settings}


def number(value: Json, default: float = 0) -> float:
    """Return a number; the default for anything else."""
    return default if isinstance(value, bool) or not isinstance(value, (int, float)) else value


def text(value: Json) -> str:
    """Return a text; empty for anything else."""
    return value if isinstance(value, str) else ""


def token_ids(line: str) -> list[int] | None:
    """Return the ids in a JSON list of whole numbers; None for anything else."""
    try:
        found = json_parse(line)
    except JSSyntaxError:
        return None
    if not is_list(found):
        return None
    ids = [int(item) for item in found if is_whole(item)]
    return ids if len(ids) == len(found) else None


def bias_entries(settings: Mapping[str, Json], given: TextInput) -> list[tuple[list[int], Json]]:
    """Return token ids and values of the setting ``logit_bias``, in order.

    ``[ids]`` are used directly, ``{text}`` is tokenized unchanged, other text with a space before it.
    """
    found: list[tuple[list[int], Json]] = []
    entries = settings.get("logit_bias")
    for entry in entries if is_list(entries) else []:
        words = trim(text(entry.get("text"))) if is_object(entry) else ""
        if not is_object(entry) or not words:
            continue
        if words.startswith("[") and words.endswith("]"):
            ids = token_ids(words)
            if ids is None:
                given.warn(f"logit_bias {words!r} is left out: it is not a list of token ids")
        elif words.startswith("{") and words.endswith("}"):
            ids = tokens(words[1:-1], "logit_bias", given)
        else:
            ids = tokens(f" {words}", "logit_bias", given)
        if ids is not None:
            found.append((ids, entry.get("value")))
    return found


def tokens(words: str, field: str, given: TextInput) -> list[int] | None:
    """Return the token ids of a text; without a tokenizer, none, with a warning."""
    if given.tokenize is None:
        given.warn(f"{field} {words!r} is left out: a tokenizer is needed to send it")
        return None
    return list(given.tokenize(words))


def is_whole(value: Json) -> TypeGuard[int | float]:
    """Return True if a value is a whole number, in JavaScript's sense (``1.0`` is one)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and float(value).is_integer()
