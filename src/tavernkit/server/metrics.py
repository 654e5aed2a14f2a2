"""Prometheus metrics of a process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

BUCKETS = (0.002, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """What is counted and measured. Every service has its own registry, so tests and twins do not collide."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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
        self._running = Gauge("tavernkit_http_requests_running", "Requests now", registry=self.registry)
        self._turns = Counter("tavernkit_turns", "Turns", ("kind", "status"), registry=self.registry)
        self._turn_latency = Histogram(
            "tavernkit_turn_seconds", "Whole turns", ("kind",), buckets=BUCKETS, registry=self.registry
        )
        self._builds = Histogram("tavernkit_build_seconds", "A prompt's build", buckets=BUCKETS, registry=self.registry)
        self._upstream = Histogram(
            "tavernkit_upstream_seconds", "Waiting for a model", ("upstream",), buckets=BUCKETS, registry=self.registry
        )

    def request_began(self) -> None:
        """A request came in."""
        self._running.inc()

    def request_ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._running.dec()
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def turn(self, kind: str, status: str, seconds: float) -> None:
        """A turn ended."""
        self._turns.labels(kind, status).inc()
        self._turn_latency.labels(kind).observe(seconds)

    def built(self, seconds: float) -> None:
        """A prompt was built."""
        self._builds.observe(seconds)

    def asked(self, upstream: str, seconds: float) -> None:
        """A model was asked."""
        self._upstream.labels(upstream).observe(seconds)

    def text(self) -> bytes:
        """Everything in Prometheus's text format."""
        return generate_latest(self.registry)
