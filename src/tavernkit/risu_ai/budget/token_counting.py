"""Counts tokens the way RisuAI does: per message, with its overhead."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from tavernkit.budget.adapters import ModelAdapter
from tavernkit.budget.estimator import TokenEstimator, default_estimator
from tavernkit.prompt.inputs import Estimator
from tavernkit.risu_ai.cbs.models import model_info
from tavernkit.risu_ai.chat.prompt_message import PromptMessage

RESERVE = 50
"""Tokens RisuAI keeps free beside those of the reply."""

GPT_OVERHEAD, OTHER_OVERHEAD = 5, 3
"""What each message costs on top of its text, on models whose id starts with ``gpt`` and on others."""

MULTIMODAL_TOKENS = 1000
"""What one attached picture, sound or film is taken to cost; RisuAI's own figures depend on the model."""

_TOKENIZERS = (
    None,
    "cl100k_base",
    "o200k_base",
    "mistral_v3",
    "llama2",
    "llama2",
    "cl100k_base",
    "llama2",
    "llama3",
    "gemma3",
    "gemma3",
    "cl100k_base",
    None,
    "deepseek_v3",
)
"""The bundled tokenizer for each of RisuAI's numbers; the closest one where RisuAI's own is not bundled."""


class MessageCounter:
    """Counts texts and messages for one model."""

    def __init__(self, model: str, estimator: Estimator | None = None) -> None:
        self._gpt = model.startswith("gpt")
        self.overhead = GPT_OVERHEAD if self._gpt else OTHER_OVERHEAD
        self._estimator: Estimator = estimator if estimator is not None else _estimator(model)
        self._model = model

    def text(self, text: str) -> int:
        """Tokens of a text."""
        return self._estimator.estimate(text, self._model)

    def message(self, message: PromptMessage) -> int:
        """Tokens of a message; names are free on models whose id starts with ``gpt``."""
        tokens = self.text(message.content) + self.overhead
        if message.name and not self._gpt:
            tokens += self.text(message.name) + 1
        return tokens + MULTIMODAL_TOKENS * len(message.multimodals)

    def messages(self, messages: Iterable[PromptMessage]) -> int:
        """Tokens of several messages."""
        return sum(self.message(message) for message in messages)


def _estimator(model: str) -> Estimator:
    number = model_info(model).tokenizer
    name = _TOKENIZERS[number] if 0 <= number < len(_TOKENIZERS) else None
    return default_estimator() if name is None else _named(name)


@cache
def _named(name: str) -> TokenEstimator:
    """One estimator a tokenizer, with the counts it remembers."""
    return TokenEstimator(default=ModelAdapter(name))
