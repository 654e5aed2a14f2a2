"""Counts tokens the way RisuAI does: per message, with its overhead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from tavernkit._values import FrozenJson, is_mapping
from tavernkit.budget._adapters import ModelAdapter
from tavernkit.budget._estimator import TokenEstimator, default_estimator
from tavernkit.budget._tokenizers import get_tokenizer
from tavernkit.prompt._inputs import Estimator
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._models import model_info

RESERVE = 50
"""Tokens that RisuAI reserves in addition to the reply."""

GPT_OVERHEAD, OTHER_OVERHEAD = 5, 3
"""Tokens of each message besides its text, for models whose id starts with ``gpt`` and for others."""

LOW_DETAIL_TOKENS = 87
"""Tokens of a picture with low detail, RisuAI's default."""

MULTIMODAL_TOKENS = 1000
"""Assumed tokens of other pictures, audio and videos; RisuAI's own numbers depend on their size."""

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
"""The bundled tokenizer for each of RisuAI's numbers; the closest one if RisuAI's own is not bundled."""


_EXACT = frozenset({1, 2})
"""RisuAI's numbers of OpenAI's own tokenizers: their token ids are exact."""


class MessageCounter:
    """Counts texts and messages for one model."""

    def __init__(self, model: str, estimator: Estimator | None = None, *, low_detail: bool = True) -> None:
        self._picture_tokens = LOW_DETAIL_TOKENS if low_detail else MULTIMODAL_TOKENS
        self._gpt = model.startswith("gpt")
        self.overhead = GPT_OVERHEAD if self._gpt else OTHER_OVERHEAD
        self._estimator: Estimator = estimator if estimator is not None else _estimator(model)
        self._model = model

    def text(self, text: str) -> int:
        """Tokens of a text."""
        return self._estimator.estimate(text, self._model)

    def message(self, message: PromptMessage) -> int:
        """Tokens of a message; names are free on models whose id starts with ``gpt``."""
        content, name, media, known = message.content, message.name, message.multimodals, message.cost
        if known is not None and known[0] is self and known[1] is content and known[2] is name and known[3] is media:
            return known[4]
        tokens = self.text(content) + self.overhead
        if name and not self._gpt:
            tokens += self.text(name) + 1
        if media:
            tokens += sum(map(self._media, media))
        message.cost = (self, content, name, media, tokens)
        return tokens

    def _media(self, media: FrozenJson) -> int:
        return self._picture_tokens if is_mapping(media) and media.get("type") == "image" else MULTIMODAL_TOKENS

    def messages(self, messages: Iterable[PromptMessage]) -> int:
        """Tokens of several messages."""
        return sum(map(self.message, messages))


def encoder(model: str) -> Callable[[str], Sequence[int]] | None:
    """Return a function that gives the token ids of a text; None if the model's ids are not known."""
    number = model_info(model).tokenizer
    name = _TOKENIZERS[number] if number in _EXACT else None
    return None if name is None else lambda text: get_tokenizer(name).encode(text)


def _estimator(model: str) -> Estimator:
    number = model_info(model).tokenizer
    name = _TOKENIZERS[number] if 0 <= number < len(_TOKENIZERS) else None
    return default_estimator() if name is None else _named(name)


@cache
def _named(name: str) -> TokenEstimator:
    """Return the estimator of a tokenizer, with its cached counts."""
    return TokenEstimator(default=ModelAdapter(name))
