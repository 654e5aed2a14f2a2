"""What a text costs in text completion."""

from __future__ import annotations

import math

from tavernkit.prompt.context import Estimator

BYTES_A_TOKEN = 3.35
"""SillyTavern's estimate for models whose tokenizer it does not know."""


class TextCounter:
    """Counts texts: with the application's estimator if there is one, else by their bytes in UTF-8.

    ``padding`` is added to counts of whole prompts.
    """

    def __init__(self, estimator: Estimator | None, model_hint: str | None, padding: int) -> None:
        self._estimator = estimator
        self._hint = model_hint
        self._padding = padding

    def text(self, text: str) -> int:
        """The tokens of a text."""
        if not text:
            return 0
        if self._estimator is not None:
            return self._estimator.estimate(text, self._hint)
        return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_A_TOKEN)

    def prompt(self, text: str) -> int:
        """The tokens of a whole prompt, with the padding."""
        text = text.replace("\r", "")
        return self.text(text) + self._padding if text else 0
