"""Choosing templates for a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError, parse_literal
from tavernkit._text.js_values import trim
from tavernkit._values import is_mapping
from tavernkit.errors import Warn, log_warning
from tavernkit.silly_tavern._templates.templates import InstructTemplate

KNOWN_HASHES: Mapping[str, str] = {
    "e10ca381": "Llama 3 Instruct",
    "5816fce1": "Llama 3 Instruct",
    "73e87b16": "Llama 3 Instruct",
    "e16746b4": "Mistral V2 & V3",
    "26a59556": "Mistral V2 & V3",
    "e4676cb5": "Mistral V3-Tekken",
    "3c4ad5fa": "Mistral V7",
    "3934d199": "Mistral V7",
    "ecd6ae51": "Gemma 2",
    "87fa45af": "Gemma 2",
    "7de1c58e": "Gemma 2",
    "3b54f5c2": "Command R",
    "ac7498a3": "Tulu",
    "54d400be": "DeepSeek-V2.5",
    "b6835114": "DeepSeek-V2.5",
    "854b703e": "GLM-4",
    "aab20feb": "Moonshot AI",
    "70da0d23": "OpenAI Harmony",
    "a4c9919c": "OpenAI Harmony",
}
"""Template names by the first eight digits of the SHA-256 of a model's chat template."""

MARKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Moonshot AI",
        ("<|im_user|>user<|im_middle|>", "<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"),
    ),
    (
        "OpenAI Harmony",
        ("<|start|>user<|message|>", "<|start|>assistant<|channel|>final<|message|>", "<|end|>"),
    ),
    ("ChatML", ("<|im_start|>user", "<|im_start|>assistant", "<|im_end|>")),
)
"""Template names and the texts that a chat template must contain, all of them; the first match counts."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The templates chosen for a model: the live instruct settings after it, and a context template's name."""

    instruct: InstructTemplate
    context: str | None
    found: bool


def select_for_model(
    model: str,
    live: InstructTemplate,
    presets: Sequence[InstructTemplate],
    *,
    mappings: Mapping[str, object] | None = None,
    context_name: str = "",
    warn: Warn = log_warning,
) -> Selection:
    """Choose an instruct template for a model's name.

    The user's mapping wins and switches instruct mode on. Otherwise, if it is on: the first preset whose
    ``activation_regex`` matches, or, if bound to it, the one named as the context template in use. Bound templates are
    selected together by name, unless a mapping names both.

    Args:
        model: The model's name.
        live: The template in use.
        presets: All instruct templates.
        mappings: The user's choices by model (``model_templates_mappings``).
        context_name: The name of the context template in use.
        warn: Called with each warning; by default they are logged.
    """
    mapped = (mappings or {}).get(model)
    if is_mapping(mapped):
        named = mapped.get("context")
        context = named if isinstance(named, str) and named else None
        chosen = _named(presets, mapped.get("instruct"))
        if live.bind_to_context:
            chosen = chosen or _named(presets, context)
            context = context or (chosen.name if chosen is not None else None)
        if chosen is not None:
            live = live.with_preset(chosen).replace(enabled=True)
        return Selection(live, context, found=True)
    if not live.enabled:
        return Selection(live, None, found=False)
    chosen = next((preset for preset in presets if _matches(preset, model, warn)), None)
    if chosen is None and live.bind_to_context:
        chosen = _named(presets, context_name)
    if chosen is None:
        return Selection(live, None, found=False)
    live = live.with_preset(chosen)
    return Selection(live, chosen.name if live.bind_to_context else None, found=True)


def template_for_chat_template(chat_template: str, sha256: str | None = None) -> str | None:
    """Return the name of the templates (context and instruct) for a model's chat template, if any.

    Args:
        chat_template: The model's chat template (Jinja).
        sha256: Its SHA-256 in hexadecimal; by default it is computed.
    """
    if not trim(chat_template):
        return None
    if sha256 is None:
        sha256 = hashlib.sha256(chat_template.encode("utf-8", "surrogatepass")).hexdigest()
    known = KNOWN_HASHES.get(sha256[:8])
    if known is not None:
        return known
    return next((name for name, marks in MARKS if all(mark in chat_template for mark in marks)), None)


def _named(presets: Iterable[InstructTemplate], name: object) -> InstructTemplate | None:
    return next((preset for preset in presets if name and preset.name == name), None)


def _matches(preset: InstructTemplate, model: str, warn: Warn) -> bool:
    if not preset.activation_regex:
        return False
    source, flags = parse_literal(preset.activation_regex) or (preset.activation_regex, "")
    try:
        return JSRegex.compile(source, flags).test(model, warn=warn)
    except JSRegexSyntaxError as error:
        warn(f"instruct template {preset.name!r}: the activation regex is skipped: {error}")
        return False
