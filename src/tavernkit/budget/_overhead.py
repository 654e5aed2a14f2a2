"""The tokens that a provider's chat template adds to a prompt, learnt from reported usage."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import linear_regression

from tavernkit._dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UsageSample:
    """One request: its estimated tokens, and the prompt tokens that the provider billed."""

    message_count: int
    """How many messages the request had."""
    estimated_tokens: int
    """Tokens of their contents, as estimated."""
    prompt_tokens: int
    """Tokens that the provider counted."""


@dataclass(frozen=True, slots=True)
class OverheadProfile:
    """Tokens a provider adds to each message and once to each request."""

    per_message: int = 0
    """Tokens added to every message."""
    per_request: int = 0
    """Tokens added once."""

    @classmethod
    def fit(cls, samples: Iterable[UsageSample]) -> OverheadProfile:
        """Find the profile that explains the samples best, rounded up so that budgets stay on the safe side.

        Samples of different lengths separate the two parts; otherwise everything counts as per message.
        """
        listed = list(samples)
        points = [(s.message_count, s.prompt_tokens - s.estimated_tokens) for s in listed if s.message_count > 0]
        if not points:
            return cls()
        counts, extras = zip(*points, strict=True)
        if len(set(counts)) == 1:
            return cls(per_message=_safe(sum(extras) / sum(counts)))
        slope, intercept = linear_regression(counts, extras)
        if slope < 0 or intercept < 0:
            return cls(per_message=_safe(sum(extras) / sum(counts)))
        return cls(per_message=_safe(slope), per_request=_safe(intercept))

    def total(self, message_count: int) -> int:
        """Return the tokens added to a request with this many messages."""
        return self.per_request + self.per_message * message_count


OPENAI_OVERHEAD = OverheadProfile(per_message=4, per_request=3)
"""OpenAI's chat models: three tokens and the role for each message, three to start the reply."""


def _safe(tokens: float) -> int:
    return max(0, math.ceil(round(tokens, 6)))
