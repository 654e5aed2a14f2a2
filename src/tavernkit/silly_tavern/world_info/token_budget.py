"""The token budget of lore."""

from __future__ import annotations

from tavernkit.lore.contracts import TokenCounter
from tavernkit.silly_tavern.world_info.limits import TOKENS_OVERHEAD
from tavernkit.silly_tavern.world_info.settings import WorldInfoSettings
from tavernkit.text.js_values import js_round


def token_limit(settings: WorldInfoSettings, max_context: float) -> float:
    """The tokens that lore may take: a percentage of the context, at least 1, at most the cap if there is one."""
    limit = js_round(settings.budget * max_context / 100)
    limit = limit if limit and limit == limit else 1
    if settings.budget_cap > 0 and limit > settings.budget_cap:
        limit = settings.budget_cap
    return int(limit) if float(limit).is_integer() else limit


class TokenBudget:
    """Adds up the texts of the passes and tells when the limit is reached.

    The whole text of a pass has to be counted with every entry, because tokens do not add up. While the room that is
    left is larger than the text that came since the last count could ever need, counting is put off.
    """

    __slots__ = ("_base", "_bytes", "_count", "_counted", "_fed", "_parts", "_trusted", "_uncounted", "_unfed", "limit")

    def __init__(self, limit: float, count: TokenCounter) -> None:
        self.limit = limit
        self._count = count
        self._trusted = True
        self._base = 0
        self._fed: list[str] = []
        self._unfed = 0
        self._parts: list[str] = []
        self._counted: int | None = None
        self._bytes = 0
        self._uncounted = 0

    def begin_pass(self, fed: str) -> None:
        """Start a pass; ``fed`` is what the last one fed into it, in front of what earlier ones did."""
        if fed:
            self._fed.append(fed)
            self._unfed += _bytes(fed)
        self._parts = []
        self._counted = None
        self._bytes = self._uncounted = 0

    def add(self, text: str) -> None:
        """Add the text of an entry."""
        self._parts.append(text)
        size = _bytes(text)
        self._bytes += size
        self._uncounted += size

    def is_exceeded(self) -> bool:
        """Return True if the limit is reached."""
        if self._trusted and self._counted is not None:
            most = self._most_fed() + self._counted + self._uncounted + TOKENS_OVERHEAD
            if most < self.limit:
                return False
        tokens = self._count("".join(self._parts))
        self._trusted = self._trusted and tokens <= self._bytes + TOKENS_OVERHEAD
        self._counted, self._uncounted = tokens, 0
        if self._trusted and self._most_fed() + tokens < self.limit:
            return False
        return self._count_fed() + tokens >= self.limit

    def last_entry(self) -> tuple[int, int]:
        """Tell how many tokens the last entry needed and how many were left for it."""
        before = "".join(self._parts[:-1])
        fed = self._count_fed()
        used = fed + (self._count(before) if before else 0)
        total = fed + self._count("".join(self._parts))
        return total - used, max(int(self.limit) - used, 0)

    def _most_fed(self) -> int:
        """Tell how many tokens the text of earlier passes has at most: it is counted only where that is too many."""
        return self._base + self._unfed + TOKENS_OVERHEAD if self._unfed else self._base

    def _count_fed(self) -> int:
        if self._unfed:
            text = "".join(reversed(self._fed))
            self._base = self._count(text)
            self._trusted = self._trusted and self._base <= _bytes(text) + TOKENS_OVERHEAD
            self._fed, self._unfed = [text], 0
        return self._base


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
