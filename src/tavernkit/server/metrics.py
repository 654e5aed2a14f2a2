"""Prometheus metrics of a process, or of all workers together."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from tavernkit.models import Usage
from tavernkit.server.config import METRICS_FOLDER

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
"""Methods that are counted by name, because a client may send any word."""

BUCKETS = (0.002, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics. Every service has its own registry, so that tests do not collide."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        shared = os.environ.get(METRICS_FOLDER)
        self._shared = Path(shared) if shared else None
        self._requests = Counter(
            "tavernkit_http_requests", "Requests", ("method", "route", "status"), registry=self.registry
        )
        self._latency = Histogram(
            "tavernkit_http_request_seconds",
            "Time to the last byte",
            ("route",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._running = Gauge(
            "tavernkit_http_requests_running", "Requests now", registry=self.registry, multiprocess_mode="livesum"
        )
        self._turns = Counter("tavernkit_turns", "Turns", ("kind", "status"), registry=self.registry)
        self._turn_latency = Histogram(
            "tavernkit_turn_seconds", "Whole turns", ("kind",), buckets=BUCKETS, registry=self.registry
        )
        self._builds = Histogram("tavernkit_build_seconds", "A prompt's build", buckets=BUCKETS, registry=self.registry)
        self._upstream = Histogram(
            "tavernkit_upstream_seconds", "Waiting for a model", ("upstream",), buckets=BUCKETS, registry=self.registry
        )
        self._tokens = Counter(
            "tavernkit_tokens", "Tokens of prompts and replies", ("upstream", "kind"), registry=self.registry
        )
        self._errors = Counter(
            "tavernkit_upstream_errors",
            "Requests a model's server failed",
            ("upstream", "reason"),
            registry=self.registry,
        )
        self._first_token = Histogram(
            "tavernkit_first_token_seconds",
            "Time until a stream says something",
            ("upstream",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._summaries = Counter(
            "tavernkit_summaries", "Summaries of long sessions", ("status",), registry=self.registry
        )
        self._summary_latency = Histogram(
            "tavernkit_summary_seconds", "Making a summary", buckets=BUCKETS, registry=self.registry
        )
        self._pruned = Counter("tavernkit_pruned", "Old rows that were removed", ("table",), registry=self.registry)

    def request_began(self) -> None:
        """Count a new request."""
        self._running.inc()

    def request_ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._running.dec()
        _child(self._requests, method if method in METHODS else "other", route, str(status)).inc()
        _child(self._latency, route).observe(seconds)

    def turn(self, kind: str, status: str, seconds: float) -> None:
        """Count a finished turn."""
        _child(self._turns, kind, status).inc()
        _child(self._turn_latency, kind).observe(seconds)

    def built(self, seconds: float) -> None:
        """Record the time of a build."""
        self._builds.observe(seconds)

    def asked(self, upstream: str, seconds: float) -> None:
        """Record the time of a model's reply."""
        _child(self._upstream, upstream).observe(seconds)

    def used(self, upstream: str, usage: Usage, predicted: int = 0) -> None:
        """Count the tokens of a request; cached tokens are part of the input.

        Args:
            upstream: The upstream.
            usage: The reported tokens.
            predicted: How many tokens it should have had in its cache.
        """
        counts = {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cached": usage.cached_tokens,
            "predicted": predicted,
        }
        for kind, tokens in counts.items():
            if tokens > 0:
                _child(self._tokens, upstream, kind).inc(tokens)

    def upstream_failed(self, upstream: str, reason: str) -> None:
        """Count a failure of a model's server."""
        _child(self._errors, upstream, reason).inc()

    def first_token(self, upstream: str, seconds: float) -> None:
        """Record the time to the first token of a stream."""
        _child(self._first_token, upstream).observe(seconds)

    def summary(self, status: str, seconds: float) -> None:
        """Count a summary by its outcome."""
        _child(self._summaries, status).inc()
        self._summary_latency.observe(seconds)

    def pruned(self, table: str, rows: int) -> None:
        """Count removed rows of a table."""
        _child(self._pruned, table).inc(rows)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format, summed over all workers of this machine."""
        if self._shared is None:
            return generate_latest(self.registry)
        _forget_dead(self._shared)
        together = CollectorRegistry()
        MultiProcessCollector(together, str(self._shared))
        return generate_latest(together)


_Metric = TypeVar("_Metric", Counter, Histogram)


@lru_cache(maxsize=4096)
def _child(metric: _Metric, *labels: str) -> _Metric:
    """The part of a metric with these labels; prometheus_client takes longer to find it than to count."""
    return metric.labels(*labels)


def _forget_dead(folder: Path) -> None:
    """Remove the gauges of workers that have ended; their counters stay."""
    for path in folder.glob("gauge_live*_*.db"):
        pid = path.stem.rsplit("_", 1)[-1]
        if pid.isdigit() and not _is_alive(int(pid)):
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
