"""The settings of HypaV3."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tavernkit.risu_ai.memory.contract import whole_number
from tavernkit.values import EMPTY_OBJECT, FrozenObject, is_mapping, is_sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class HypaV3Settings:
    """One preset of HypaV3, in our words."""

    memory_ratio: float = 0.2
    extra_ratio: float = 0
    batch: int = 6
    recent_ratio: float = 0.4
    similar_ratio: float = 0.4
    similarity_correction: bool = False
    preserve_orphaned: bool = False
    skip_user: bool = False
    experimental: bool = False
    prompt: str = ""

    @classmethod
    def of(cls, database: FrozenObject) -> HypaV3Settings:
        """Read the selected preset of a database."""
        presets, chosen = database.get("hypaV3Presets"), database.get("hypaV3PresetId")
        index = whole_number(chosen, 0)
        preset = presets[index] if is_sequence(presets) and 0 <= index < len(presets) else None
        found = preset.get("settings") if is_mapping(preset) else None
        values: Mapping[str, object] = found if is_mapping(found) else EMPTY_OBJECT
        prompt = values.get("summarizationPrompt")
        return cls(
            memory_ratio=_number(values, "memoryTokensRatio", 0.2),
            extra_ratio=_number(values, "extraSummarizationRatio", 0),
            batch=max(int(_number(values, "maxChatsPerSummary", 6)), 1),
            recent_ratio=_number(values, "recentMemoryRatio", 0.4),
            similar_ratio=_number(values, "similarMemoryRatio", 0.4),
            similarity_correction=bool(values.get("enableSimilarityCorrection")),
            preserve_orphaned=bool(values.get("preserveOrphanedMemory")),
            skip_user=bool(values.get("doNotSummarizeUserMessage")),
            experimental=bool(values.get("useExperimentalImpl")),
            prompt=prompt if isinstance(prompt, str) else "",
        )


def _number(values: Mapping[str, object], name: str, default: float) -> float:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    return value if math.isfinite(value) else default
