"""What a text-completion page knows when it makes its body, and the sampler settings it starts from."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from random import Random
from typing import TYPE_CHECKING, TypeGuard, cast

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import JSSyntaxError, json_parse
from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, thaw
from tavernkit.errors import Warn, log_warning

if TYPE_CHECKING:
    from tavernkit.silly_tavern._text_completion.plan import TextPlan

TEXTGEN_SETTINGS = "textgenerationwebui_settings"
SINGLE_REPLY_TYPES = ("continue", "impersonate", "quiet")
"""Generation types that always ask for one reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextInput:
    """What the page's body depends on besides the sampler settings.

    Args:
        prompt: The finished prompt.
        max_tokens: The length of the reply.
        max_context: The size of the context.
        stop_strings: The finished stop strings.
        generation_type: ``normal``, ``continue``, ``impersonate``, ``quiet``, …
        server: The address of a backend the user runs; hosted backends have theirs.
        stream: Whether the reply is streamed (Kobold and NovelAI have a setting for that).
        token_probabilities: Whether the page asks for the probabilities of tokens.
        guidance_scale: The chat's CFG scale, if it has one.
        negative_prompt: The chat's negative prompt, if it has one.
        banned_words: Words that macros of the prompt (``{{banned}}``) want to ban.
        features: What a Kobold server was found to be able to do (``can_use_min_p``, …).
        unlimited: Whether NovelAI's highest subscription is active, which allows longer replies.
        expand: Expands the macros in a text of the settings.
        tokenize: Gives the token ids of a text by the backend's tokenizer. Without it, bans, biases and NovelAI's
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
        """Take the prompt, its stop strings, the lengths and the guidance of a plan.

        Args:
            plan: The plan of a text build.
            server: The address of a backend the user runs.
            generation_type: What the plan was built for, if the plan does not know.
        """
        guided = plan.guidance_scale != 1
        known = plan.text_input or cls(prompt="", max_tokens=0, max_context=0)
        return replace(
            known,
            prompt=plan.prompt,
            max_tokens=int(number(thaw(plan.llm_options.get("max_tokens")))),
            max_context=int(number(thaw(plan.llm_options.get("truncation_length")))),
            stop_strings=plan.stop_strings,
            generation_type=generation_type or known.generation_type,
            server=server,
            stream=_streams(plan) and known.generation_type != "quiet",
            guidance_scale=plan.guidance_scale if guided else None,
            negative_prompt=plan.negative_prompt if guided else None,
        )


def _streams(plan: TextPlan) -> bool:
    """The user's switch; Kobold's is read with its other settings."""
    key, switch = ("nai_settings", "streaming_novel") if plan.backend == "novelai" else (TEXTGEN_SETTINGS, "streaming")
    settings = plan.text_settings.get(key)
    return is_mapping(settings) and settings.get(switch) is True


@cache
def _defaults() -> Mapping[str, JsonObject]:
    text = files("tavernkit.silly_tavern.providers").joinpath("data/text_settings.json").read_text("utf-8")
    return cast("Mapping[str, JsonObject]", json.loads(text))


def with_defaults(kind: str, settings: Mapping[str, Json]) -> JsonObject:
    """Settings over SillyTavern's defaults; ``kind`` is ``text``, ``kobold`` or ``novelai``."""
    return {**_defaults()[kind], **settings}


def copied_fields(settings: Mapping[str, Json], fields: Mapping[str, str]) -> JsonObject:
    """The settings that exist, under the names they have in a body."""
    return {name: settings[setting] for name, setting in fields.items() if setting in settings}


def number(value: Json, default: float = 0) -> float:
    """A number as it is; anything else gives the default."""
    return default if isinstance(value, bool) or not isinstance(value, (int, float)) else value


def text(value: Json) -> str:
    """A text as it is; anything else gives none."""
    return value if isinstance(value, str) else ""


def token_ids(line: str) -> list[int] | None:
    """The ids of a JSON list of whole numbers; anything else gives nothing."""
    try:
        found = json_parse(line)
    except JSSyntaxError:
        return None
    if not is_list(found):
        return None
    ids = [int(item) for item in found if is_whole(item)]
    return ids if len(ids) == len(found) else None


def bias_entries(settings: Mapping[str, Json], given: TextInput) -> list[tuple[list[int], Json]]:
    """Token ids and values of the setting ``logit_bias``, in order.

    ``[ids]`` are taken as they are, ``{text}`` is tokenized as it is, other text with a blank in front.
    """
    found: list[tuple[list[int], Json]] = []
    entries = settings.get("logit_bias")
    for entry in entries if is_list(entries) else []:
        words = text(entry.get("text")).strip() if is_object(entry) else ""
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
    """The token ids of a text; without a tokenizer nothing, and a warning."""
    if given.tokenize is None:
        given.warn(f"{field} {words!r} is left out: a tokenizer is needed to send it")
        return None
    return list(given.tokenize(words))


def is_whole(value: Json) -> TypeGuard[int | float]:
    """Return True if a value is a whole number, in JavaScript's sense (``1.0`` is one)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and float(value).is_integer()
