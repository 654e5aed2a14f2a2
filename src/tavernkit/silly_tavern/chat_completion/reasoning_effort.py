"""The reasoning effort a request asks for."""

from __future__ import annotations

from tavernkit.silly_tavern.files.preset import Preset

TRANSLATING_SOURCES = (
    "openai",
    "azure_openai",
    "custom",
    "xai",
    "aimlapi",
    "openrouter",
    "pollinations",
    "perplexity",
    "cometapi",
    "electronhub",
    "chutes",
    "deepseek",
    "fireworks",
)
"""Sources for which the setting is translated; all others are sent the setting as it is."""

_DEEPSEEK = {"min": "low", "low": "low", "max": "max"}
_KOBOLDCPP = {"min": "minimal", "max": "xhigh"}


def reasoning_effort(preset: Preset) -> str | None:
    """The value of ``reasoning_effort``, or nothing if the field is left out."""
    source, effort = preset.chat_completion_source, preset.reasoning_effort
    if source not in TRANSLATING_SOURCES:
        return effort
    if effort == "auto" or _takes_none(preset):
        return None
    if source == "deepseek":
        return _DEEPSEEK.get(effort, "high")
    if source == "custom" and preset.model.startswith("koboldcpp/"):
        return _KOBOLDCPP.get(effort, effort)
    if effort == "min":
        return _least(preset)
    if effort == "max" and source != "fireworks":
        return _most(preset)
    return effort


def _takes_none(preset: Preset) -> bool:
    source, model = preset.chat_completion_source, preset.model
    if source == "xai":
        return "grok-3-mini" not in model
    return source == "azure_openai" and model.startswith(("gpt-3", "gpt-4"))


def _least(preset: Preset) -> str:
    source, model = preset.chat_completion_source, preset.model
    if source in ("openai", "azure_openai"):
        if model.startswith(("gpt-5.4", "gpt-5.5", "gpt-5.6")):
            return "none"
        if model.startswith("gpt-5"):
            return "min"
    if source == "openrouter" and not preset.show_thoughts:
        return "none"
    return "low"


def _most(preset: Preset) -> str:
    if preset.chat_completion_source in ("openai", "azure_openai"):
        if preset.model.startswith("gpt-5.6"):
            return "xhigh"
        if preset.model.startswith("gpt-6-astra"):
            return "max"
    return "high"
