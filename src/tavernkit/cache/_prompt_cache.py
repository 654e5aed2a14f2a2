"""A provider's cache, predicted: what each request of a conversation finds in it, and what it costs."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tavernkit._values import JsonObject
from tavernkit.cache._breaks import PrefixBreak, advise, common_tokens, find_break, worst_first
from tavernkit.cache._profiles import CacheProfile, find_profile
from tavernkit.cache._spans import Span, choose_breakpoints, plan_spans, total_tokens
from tavernkit.errors import ConfigError
from tavernkit.models._reply import Usage
from tavernkit.prompt._plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTurn:
    """What one request finds in the cache. Costs are in tokens of uncached input."""

    number: int
    """The number of the request, from 1."""
    tokens: int
    """Tokens of the request."""
    common_tokens: int
    """Tokens of the longest common prefix with the previous request."""
    cached_tokens: int
    """Tokens that come from the provider's cache."""
    written_tokens: int
    """Tokens that are written to it."""
    cost: float
    """What the input costs, in tokens of uncached input."""
    broken: PrefixBreak | None = None
    """Where and why the request differs from the previous one."""
    reported_tokens: int | None = None
    """Tokens that came from the cache according to the provider, if known (``PromptCache.receive()``)."""

    @property
    def share(self) -> float:
        """The cached part of the prompt, from 0 to 1."""
        return self.cached_tokens / self.tokens if self.tokens else 0.0

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {
            "number": self.number,
            "tokens": self.tokens,
            "common_tokens": self.common_tokens,
            "cached_tokens": self.cached_tokens,
            "written_tokens": self.written_tokens,
            "reported_tokens": self.reported_tokens,
            "cost": round(self.cost, 2),
            "broken": None if self.broken is None else self.broken.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class CacheReport:
    """The requests of a conversation and their cache hits."""

    profile: CacheProfile
    """The provider's rules and prices."""
    turns: Sequence[CacheTurn]
    """The requests in order."""

    @property
    def tokens(self) -> int:
        """Input tokens of all requests."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def cached_tokens(self) -> int:
        """Those that came from the cache."""
        return sum(turn.cached_tokens for turn in self.turns)

    @property
    def share(self) -> float:
        """The cached part of all input, from 0 to 1."""
        return self.cached_tokens / self.tokens if self.tokens else 0.0

    @property
    def reported_share(self) -> float | None:
        """The cached part reported by the provider, over the requests with a report; None if there are none."""
        reported = [turn for turn in self.turns if turn.reported_tokens is not None]
        tokens = sum(turn.tokens for turn in reported)
        return sum(turn.reported_tokens or 0 for turn in reported) / tokens if tokens else None

    @property
    def common_share(self) -> float:
        """The part of all input that is in the longest common prefix with the previous request."""
        return sum(turn.common_tokens for turn in self.turns) / self.tokens if self.tokens else 0.0

    @property
    def cost(self) -> float:
        """What all input costs, in tokens of uncached input."""
        return sum(turn.cost for turn in self.turns)

    @property
    def causes(self) -> list[tuple[PrefixBreak, int, int]]:
        """What broke the cache, worst first: an example, how many requests, and the tokens that were lost."""
        return worst_first(turn.broken for turn in self.turns if turn.broken is not None)

    def advice(self) -> list[str]:
        """Return advice on what would save most, with numbers."""
        return advise(self)

    def to_dict(self) -> JsonObject:
        """The whole report, ready for ``json``."""
        return {
            "profile": self.profile.name,
            "tokens": self.tokens,
            "cached_tokens": self.cached_tokens,
            "share": round(self.share, 4),
            "common_share": round(self.common_share, 4),
            "reported_share": None if self.reported_share is None else round(self.reported_share, 4),
            "cost": round(self.cost, 2),
            "causes": [
                {**one.to_dict(), "requests": times, "lost_tokens": lost, "avoidable": one.avoidable}
                for one, times, lost in self.causes
            ],
            "advice": list(self.advice()),
            "turns": [turn.to_dict() for turn in self.turns],
        }


class PromptCache:
    """Predicts what a provider has cached, for each request of a conversation.

    >>> from tavernkit.cache import PromptCache, Span
    >>> cache = PromptCache("deepseek")
    >>> cache.send([Span("A long card.", 640), Span("Hi", 4)]).cached_tokens
    0
    >>> cache.send([Span("A long card.", 640), Span("Hi", 4), Span("Hello!", 6)]).cached_tokens
    640
    """

    def __init__(self, profile: CacheProfile | str = "openai") -> None:
        self.profile = find_profile(profile)
        self._turns: list[CacheTurn] = []
        self._last: Sequence[Span] = ()
        self._sent: deque[Sequence[Span]] = deque(maxlen=self.profile.memory)
        self._entries: set[bytes] = set()
        """Prefixes that were written at cache marks."""

    @property
    def report(self) -> CacheReport:
        """Everything so far."""
        return CacheReport(self.profile, tuple(self._turns))

    def send(self, request: Plan | Sequence[Span], *, idle_seconds: float = 0.0) -> CacheTurn:
        """Predict the cache hits of the next request, and record it for later ones.

        Args:
            request: A plan, or the spans of a request (``plan_spans()``, ``request_spans()``).
            idle_seconds: The time since the previous request; after the profile's lifetime, the cache is empty.
        """
        spans = plan_spans(request) if isinstance(request, Plan) else request
        if self.profile.lifetime is not None and idle_seconds > self.profile.lifetime:
            self._sent.clear()
            self._entries.clear()
        tokens = total_tokens(spans)
        cached, written = self._mark(spans) if self.profile.breakpoints else self._automatic(spans, tokens)
        first = not self._turns
        broken = None if first else find_break(self._last, spans)
        if broken is not None:  # an older request may share a longer prefix than the last one
            broken = replace(broken, lost_tokens=min(broken.lost_tokens, tokens - cached))
        turn = CacheTurn(
            number=len(self._turns) + 1,
            tokens=tokens,
            common_tokens=0 if first else common_tokens(self._last, spans),
            cached_tokens=cached,
            written_tokens=written,
            cost=self.profile.cost(tokens=tokens, cached=cached, written=written),
            broken=broken,
        )
        self._turns.append(turn)
        self._last = spans
        self._sent.append(spans)
        return turn

    def receive(self, usage: Usage) -> CacheTurn:
        """Record what the provider reported, next to the prediction of the last request.

        Args:
            usage: ``Reply.usage``; our own estimates are ignored.

        Raises:
            ConfigError: No request was sent.
        """
        if not self._turns:
            raise ConfigError("no request was sent yet: call send() first")
        if usage.reported:
            self._turns[-1] = replace(self._turns[-1], reported_tokens=usage.cached_tokens)
        return self._turns[-1]

    def _automatic(self, spans: Sequence[Span], tokens: int) -> tuple[int, int]:
        common = max((common_tokens(sent, spans) for sent in self._sent), default=0)
        cached = self.profile.cacheable(common)
        return cached, tokens - cached

    def _mark(self, spans: Sequence[Span]) -> tuple[int, int]:
        marks = tuple(number for number, span in enumerate(spans) if span.marked)[: self.profile.breakpoints]
        marks = marks or choose_breakpoints(spans, self.profile)
        names, sums = _prefixes(spans)
        hit = -1
        for mark in marks:
            oldest = max(mark - self.profile.look_back + 1, 0)
            hit = max([hit, *(place for place in range(oldest, mark + 1) if names[place] in self._entries)])
        usable = [mark for mark in marks if sums[mark] >= self.profile.minimum]
        self._entries.update(names[mark] for mark in usable)
        cached = sums[hit] if hit >= 0 else 0
        return cached, max(sums[usable[-1]] - cached, 0) if usable else 0


def predict(requests: Iterable[Plan | Sequence[Span]], profile: CacheProfile | str = "openai") -> CacheReport:
    """Predict what a provider caches of consecutive requests.

    Args:
        requests: Plans or spans, in the order in which they are sent.
        profile: The provider: a name in ``PROFILES``, or your own profile.
    """
    cache = PromptCache(profile)
    for request in requests:
        cache.send(request)
    return cache.report


def _prefixes(spans: Sequence[Span]) -> tuple[list[bytes], list[int]]:
    """A name for each prefix, and its tokens."""
    names: list[bytes] = []
    sums: list[int] = []
    name, total = b"", 0
    for span in spans:
        text = "\0".join(span.content).encode("utf-8", "surrogatepass")
        name = hashlib.blake2b(name + text, digest_size=16).digest()
        total += span.tokens
        names.append(name)
        sums.append(total)
    return names, sums
