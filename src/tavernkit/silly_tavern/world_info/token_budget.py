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

    __slots__ = ("_base", "_bytes", "_count", "_counted", "_parts", "_trusted", "_uncounted", "limit")

    def __init__(self, limit: float, count: TokenCounter) -> None:
        self.limit = limit
        self._count = count
        self._trusted = True
        self._base = 0
        self._parts: list[str] = []
        self._counted: int | None = None
        self._bytes = 0
        self._uncounted = 0

    def begin_pass(self, activated_text: str) -> None:
        """Start a pass; ``activated_text`` is what earlier passes fed into it."""
        self._base = self._count(activated_text) if activated_text else 0
        self._parts = []
        self._counted = None
        self._bytes = self._uncounted = 0

    def add(self, text: str) -> None:
        """Add the text of an entry."""
        self._parts.append(text)
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        self._bytes += size
        self._uncounted += size

    def is_exceeded(self) -> bool:
        """Tell whether the limit is reached."""
        if self._trusted and self._counted is not None:
            most = self._base + self._counted + self._uncounted + TOKENS_OVERHEAD
            if most < self.limit:
                return False
        tokens = self._count("".join(self._parts))
        self._trusted = self._trusted and tokens <= self._bytes + TOKENS_OVERHEAD
        self._counted, self._uncounted = tokens, 0
        return self._base + tokens >= self.limit

    def last_entry(self) -> tuple[int, int]:
        """Tell how many tokens the last entry needed and how many were left for it."""
        before = "".join(self._parts[:-1])
        used = self._base + (self._count(before) if before else 0)
        total = self._base + self._count("".join(self._parts))
        return total - used, max(int(self.limit) - used, 0)
