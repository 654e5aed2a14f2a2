"""Predicts what providers have cached of a session's prompts, for comparison with what they report."""

from __future__ import annotations

import time
from collections.abc import Callable

from tavernkit import count_tokens
from tavernkit._values import LRUCache
from tavernkit.cache import PromptCache, request_spans
from tavernkit.models import Request
from tavernkit.server.config import UpstreamConfig
from tavernkit.server.limits import MAX_PREDICTED_TURNS, PREDICTED_SESSIONS

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
