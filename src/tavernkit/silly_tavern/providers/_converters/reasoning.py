"""How much a model may think: budgets by effort."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

CLAUDE_LEAST = 1024
CLAUDE_MOST_WITHOUT_STREAMING = 21333
_CLAUDE_SHARES: Mapping[str, float] = {"low": 0.1, "medium": 0.25, "high": 0.5, "max": 0.95}
_CLAUDE_ADAPTIVE: Mapping[str, str] = {"min": "low", "low": "low", "medium": "medium", "high": "high", "max": "max"}
_GOOGLE_SHARES: Mapping[str, float] = {"low": 0.1, "medium": 0.25, "high": 0.5, "max": 1.0}


def claude_budget(max_tokens: int, effort: str, *, stream: bool, adaptive: bool = False) -> int | str | None:
    """Return the thinking tokens of Claude, or an effort for adaptive models; None leaves it to the provider."""
    if adaptive:
        return _CLAUDE_ADAPTIVE.get(effort)
    if effort == "auto":
        return None
    budget = CLAUDE_LEAST if effort == "min" else math.floor(max_tokens * _CLAUDE_SHARES.get(effort, 0))
    budget = max(budget, CLAUDE_LEAST)
    return budget if stream else min(budget, CLAUDE_MOST_WITHOUT_STREAMING)


def google_budget(max_tokens: int, effort: str, model: str) -> int | str | None:
    """Return the thinking tokens or level of Gemini; None leaves it to the provider."""
    if re.search(r"gemini-3(\.\d+)?-pro", model):
        return {"min": "low", "low": "low", "medium": "low", "high": "high", "max": "high"}.get(effort)
    if re.search(r"gemini-3(\.\d+)?-flash", model):
        least = "low" if "gemini-3.7" in model else "minimal"
        return {"min": least, "low": "low", "medium": "medium", "high": "high", "max": "high"}.get(effort)
    if "flash-lite" in model:
        return _google_tokens(max_tokens, effort, least=512, most=24576, at_min=0)
    if "flash" in model:
        return _google_tokens(max_tokens, effort, least=0, most=24576, at_min=0)
    if "pro" in model:
        return _google_tokens(max_tokens, effort, least=128, most=32768, at_min=128)
    return None


def _google_tokens(max_tokens: int, effort: str, *, least: int, most: int, at_min: int) -> int:
    if effort == "auto":
        return -1
    if effort == "min":
        return at_min
    return min(max(math.floor(max_tokens * _GOOGLE_SHARES.get(effort, 0)), least), most)
