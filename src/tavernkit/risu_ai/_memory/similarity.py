"""Finds similar texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._text.js_values import trim
from tavernkit.risu_ai._memory.contract import Embed


class Similarity:
    """Ranks texts by how much they resemble queries; each text counts once, ties keep their order."""

    def __init__(self, embed: Embed, texts: Sequence[str]) -> None:
        self.texts = list(dict.fromkeys(texts))
        self._embed = embed
        self._vectors = embed(self.texts) if self.texts else ()

    def scores(self, query: str) -> dict[str, float]:
        """How much each text resembles a query (dot product)."""
        if not self.texts:
            return {}
        (wanted,) = self._embed([query])
        return {
            text: sum(a * b for a, b in zip(vector, wanted, strict=True))
            for text, vector in zip(self.texts, self._vectors, strict=True)
        }

    def ranked(self, weighted: Sequence[tuple[str, float]]) -> list[str]:
        """Texts by the sum of their weighted scores, best first."""
        totals = dict.fromkeys(self.texts, 0.0)
        for query, weight in weighted:
            for text, score in self.scores(query).items():
                totals[text] += score * weight
        return self._best_first(totals)

    def ranked_by_newest(self, queries: Sequence[str]) -> list[str]:
        """Texts by how they resemble some queries, newest first: the second counts half, the third a third.

        Scores are divided, not weighted with fractions, because rounding decides the order of ties.
        """
        totals = dict.fromkeys(self.texts, 0.0)
        for place, query in enumerate(queries, start=1):
            for text, score in self.scores(query).items():
                totals[text] += score / place
        return self._best_first(totals)

    def _best_first(self, totals: Mapping[str, float]) -> list[str]:
        return sorted(self.texts, key=lambda text: -totals[text])


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text that are not blank."""
    return [part for part in map(trim, text.split("\n\n")) if part]
