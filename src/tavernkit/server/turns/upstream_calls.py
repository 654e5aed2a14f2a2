"""The requests of a turn to its upstreams, with fallbacks; and predictions of what they have cached."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from tavernkit import count_tokens
from tavernkit._values import JsonObject, LRUCache
from tavernkit.cache import PromptCache, request_spans
from tavernkit.models import ModelError, Reply, Request
from tavernkit.server.accounts import UpstreamExchange
from tavernkit.server.adapters.turn import Caching
from tavernkit.server.config import UpstreamConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.limits import MAX_PREDICTED_TURNS, PREDICTED_SESSIONS
from tavernkit.server.metrics import Metrics
from tavernkit.server.turns.turn_log import OpenTurn
from tavernkit.server.upstreams.listeners import (
    AnnouncingListener,
    Listener,
    QuietListener,
    SpeakerChange,
    TimedListener,
)
from tavernkit.server.upstreams.upstream import CANCELLED, Upstream, failure_reason, kind_of_failure

Route: TypeAlias = Sequence[tuple[Upstream, frozenset[str]]]
"""The upstreams to ask, each with the failures after which it is used."""
PROFILES = {"anthropic": "anthropic", "google": "google"}
"""Default profiles by protocol; others use OpenAI's."""


class PromptCaches:
    """Predicts for the sessions of this process. A session whose turns go to several processes is underestimated."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._caches: LRUCache[tuple[str, str], tuple[PromptCache, float]] = LRUCache(PREDICTED_SESSIONS)
        self._clock = clock

    def predict(self, session: str, upstream: str, config: UpstreamConfig, request: Request) -> int:
        """Return how many tokens of a request the provider should have cached, and record the request.

        Args:
            session: The session.
            upstream: The name of the server that is asked.
            config: Its settings.
            request: The request.
        """
        now = self._clock()
        key = (session, upstream)
        profile = config.cache_profile or PROFILES.get(config.dialect, "openai")
        cache, asked_at = self._caches.get(key) or (PromptCache(profile), now)
        turn = cache.send(request_spans(request, count_tokens), idle_seconds=now - asked_at)
        if turn.number >= MAX_PREDICTED_TURNS:  # it keeps a report of each request; start again from here
            cache = PromptCache(profile)
            cache.send(request_spans(request, count_tokens))
        self._caches.put(key, (cache, now))
        return turn.cached_tokens


class UpstreamCalls:
    """Asks the upstreams of a turn, one after another as long as they fail before their first piece.

    ``seconds`` is the time spent waiting for them.
    """

    def __init__(
        self, route: Route, listener: Listener, opened: OpenTurn, caches: PromptCaches, metrics: Metrics
    ) -> None:
        """Make the calls of a turn.

        Args:
            route: The upstreams.
            listener: The client.
            opened: The turn, which records its requests and replies.
            caches: Predictions for all sessions.
            metrics: The process's metrics.
        """
        self.seconds = 0.0
        self._route = route
        self._listener = listener
        self._opened = opened
        self._caches = caches
        self._metrics = metrics
        self._speakers = 0

    async def __call__(
        self, wanted: Request, *, speaker: str | None = None, quiet: bool = False, heard: list[str] | None = None
    ) -> Reply:
        """Return the reply to a request.

        Args:
            wanted: The request.
            speaker: Who answers, to announce to the client.
            quiet: True if the client gets no pieces.
            heard: Collects the texts of the pieces.
        """
        hearer = QuietListener(self._listener) if quiet else self._listener
        if speaker is not None:
            lead = f"{speaker}: " if self._speakers == 0 else f"\n\n{speaker}: "
            hearer, self._speakers = (
                AnnouncingListener(self._listener, SpeakerChange(speaker, lead)),
                self._speakers + 1,
            )
        failed: str | None = None
        last: Exception | None = None
        for upstream, conditions in self._route:
            if last is not None and failed not in conditions:
                continue
            timed = TimedListener(hearer, heard)
            try:
                return await self._ask(upstream, wanted, timed)
            except (ModelError, ServiceError) as error:
                failed, last = kind_of_failure(error), error
                if timed.first is not None or failed is None:
                    raise
            finally:
                self.seconds += timed.seconds
            wanted = wanted.replace(model="")  # the next one has its own model
        assert last is not None
        raise last

    async def _ask(self, upstream: Upstream, wanted: Request, listener: TimedListener) -> Reply:
        """Ask an upstream, and record the outcome."""
        sent = upstream.with_model(wanted)
        predicted = self._predict(upstream, sent)
        try:
            reply = await upstream.ask(sent, listener)
        except ModelError as error:
            self._metrics.upstream_failed(upstream.name, failure_reason(error))
            raise
        finally:
            if listener.first is not None:
                self._metrics.first_token(upstream.name, listener.first)
        self._opened.exchanged.append(
            UpstreamExchange(
                upstream=upstream.name,
                config=upstream.config,
                request=sent,
                reply=reply,
                predicted_tokens=predicted,
            )
        )
        self._metrics.used(upstream.name, reply.usage, predicted)
        if reply.interrupted and reply.interrupted != CANCELLED:
            self._metrics.upstream_failed(upstream.name, "broken")
        return reply

    def _predict(self, upstream: Upstream, sent: Request) -> int:
        """Return how many tokens the provider should have cached, if the session or upstream uses predictions."""
        if self._opened.chat is None:
            return 0
        if (
            upstream.config.cache_profile is None
            and caching_of(self._opened.options, upstream.config).strategy != "cache"
        ):
            return 0
        return self._caches.predict(self._opened.chat.id, upstream.name, upstream.config, sent)


def caching_of(options: JsonObject, config: UpstreamConfig | None) -> Caching:
    """Return the options for stable prompts: the session's, else the upstream's."""
    if config is None:
        config = UpstreamConfig()
    chosen = {name: options.get(name) or getattr(config, name) for name in ("strategy", "lore", "volatile")}
    named = {name: str(value) for name, value in chosen.items() if value is not None}
    # The request's or the configuration's model checked the words.
    return Caching(
        **cast("dict[str, Any]", named), profile=config.cache_profile or PROFILES.get(config.dialect, "openai")
    )
