"""The fields of a request beside its messages."""

from __future__ import annotations

from tavernkit.risu_ai.files.preset import UNSET_SAMPLER, Preset


def llm_options(preset: Preset, input_tokens: int) -> dict[str, object]:
    """Model, size of the reply (never more than the context leaves) and samplers that are set."""
    size = max(min(preset.max_response, preset.max_context - input_tokens), 0)
    fields: dict[str, object] = {"model": preset.ai_model, "max_tokens": size}
    samplers = (
        ("temperature", preset.temperature, 100),
        ("top_p", preset.top_p, 1),
        ("frequency_penalty", preset.frequency_penalty, 100),
        ("presence_penalty", preset.presence_penalty, 100),
    )
    for name, value, divisor in samplers:
        if value == value and value != UNSET_SAMPLER:  # a number that is no number is not sent either
            fields[name] = value / divisor
    return fields
