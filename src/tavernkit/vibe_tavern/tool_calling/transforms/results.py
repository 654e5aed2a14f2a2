"""Tool-result transforms: change the envelope of a result before the model gets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tavernkit.vibe_tavern.tool_calling.transforms.registry import TransformRegistry

ToolResultTransform: TypeAlias = Callable[..., dict[str, object] | None]
"""Called as ``transform(envelope, tool_name=…, tool_call_id=…)``; changes it in place, or returns another one."""


def compact_envelope(envelope: dict[str, object], *, tool_name: str, tool_call_id: str) -> dict[str, object]:
    """Leave out what is empty: warnings, errors, data."""
    del tool_name, tool_call_id
    return {key: value for key, value in envelope.items() if value or key not in ("warnings", "errors", "data")}


tool_result_transforms: TransformRegistry[ToolResultTransform] = TransformRegistry(
    "tool_result", {"tool_result_compact_envelope": compact_envelope}
)
