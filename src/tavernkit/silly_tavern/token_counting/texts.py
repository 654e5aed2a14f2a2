"""What a text costs in text completion."""

from __future__ import annotations

from collections.abc import Callable


class TextCounter:
    """Counts texts one by one; ``padding`` is added to counts of whole prompts."""

    def __init__(self, count: Callable[[str], int], padding: int) -> None:
        """Make a counter.

        Args:
            count: Counts a text that is not empty.
            padding: ``power_user.token_padding``.
        """
        self._count = count
        self._padding = padding

    def text(self, text: str) -> int:
        """The tokens of a text."""
        return max(self._count(text), 0) if text else 0

    def prompt(self, text: str) -> int:
        """The tokens of a whole prompt, with the padding."""
        text = text.replace("\r", "")
        return self.text(text) + self._padding if text else 0
