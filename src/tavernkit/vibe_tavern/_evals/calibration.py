"""Compares estimated token counts with those of providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit.models import Model, ModelError, Request
from tavernkit.prompt._inputs import Estimator
from tavernkit.vibe_tavern._token_estimation import canonical_model_hint, estimator

SAMPLE = (
    {"role": "system", "content": "You are a careful assistant. Answer in one word."},
    {"role": "user", "content": "The quick brown fox jumps over the lazy dog. Ünïcödé, 日本語, 한국어 and `code` too."},
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Estimated and counted prompt tokens of one model; ``problem`` says why there is no count."""

    model: str
    hint: str
    estimated: int
    counted: int | None = None
    problem: str | None = None

    @property
    def difference(self) -> int | None:
        """How many more tokens the provider counts, because of templates and overhead."""
        return None if self.counted is None else self.counted - self.estimated

    @property
    def ratio(self) -> float | None:
        """Counted divided by estimated tokens."""
        return None if self.counted is None or not self.estimated else self.counted / self.estimated


async def calibrate(
    asked: Model,
    models: Sequence[str],
    *,
    messages: Sequence[Mapping[str, str]] = SAMPLE,
    token_estimator: Estimator | None = None,
) -> list[Calibration]:
    """Send one small request to each model and compare."""
    counting = token_estimator or estimator()
    results: list[Calibration] = []
    for model in models:
        hint = canonical_model_hint(model)
        estimated = sum(counting.estimate(message["content"], hint) for message in messages)
        try:
            reply = await asked.send(Request(model=model, messages=messages, options={"max_tokens": 1}))
        except ModelError as error:
            results.append(Calibration(model, hint, estimated, problem=f"{type(error).__name__}: {error}"))
            continue
        if reply.usage.reported:
            results.append(Calibration(model, hint, estimated, reply.usage.input_tokens))
        else:
            results.append(Calibration(model, hint, estimated, problem="the provider reports no usage"))
    return results
