"""Compares estimated token counts with those of providers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
    """Estimated and counted prompt tokens of one model."""

    model: str
    """The model."""
    hint: str
    """The tokenizer that the estimate asks for."""
    estimated: int
    """Estimated tokens of the messages."""
    counted: int | None = None
    """The tokens that the provider counts."""
    problem: str | None = None
    """Why there is no count."""

    @property
    def difference(self) -> int | None:
        """How many more tokens the provider counts, because of templates and overhead."""
        return None if self.counted is None else self.counted - self.estimated

    @property
    def ratio(self) -> float | None:
        """Counted divided by estimated tokens."""
        return None if self.counted is None or not self.estimated else self.counted / self.estimated


async def calibrate(
    models: Iterable[Model],
    *,
    messages: Sequence[Mapping[str, str]] = SAMPLE,
    token_estimator: Estimator | None = None,
) -> list[Calibration]:
    """Send one small request to each model, and compare the tokens that it counts with the estimate.

    Args:
        models: The models.
        messages: The messages that are sent and counted.
        token_estimator: Counts tokens; by default the estimator of prompts.
    """
    counting = token_estimator or estimator()
    results: list[Calibration] = []
    for model in models:
        hint = canonical_model_hint(model.name)
        estimated = sum(counting.estimate(message["content"], hint) for message in messages)
        counted, problem = None, None
        try:
            usage = (await model.send(Request(messages=messages, options={"max_tokens": 1}))).usage
        except ModelError as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            counted, problem = (usage.input_tokens, None) if usage.reported else (None, "the provider reports no usage")
        results.append(Calibration(model.name, hint, estimated, counted, problem))
    return results
