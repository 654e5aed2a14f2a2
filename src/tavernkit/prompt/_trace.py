"""What happened during a build: timings, counters and warnings by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, freeze, freeze_object, is_mapping
from tavernkit.errors import ConfigError

Instrumenter: TypeAlias = Callable[[str, Mapping[str, object]], None]
"""Gets ``(event, payload)``: ``step_start`` (name), ``step_finish`` (name, stats?), ``step_error`` (name, error),
``warning`` (message, step?), ``stat`` (key, value, step?). Without one, no debug work is done at all."""

_PAYLOAD_KEYS: Mapping[str, frozenset[str]] = {
    "step_start": frozenset({"name"}),
    "step_finish": frozenset({"name", "stats"}),
    "step_error": frozenset({"name", "error"}),
    "warning": frozenset({"message", "step"}),
    "stat": frozenset({"key", "value", "step"}),
}


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step of a trace: ``duration_ms`` is its own time, without the steps between ``before`` and ``after``.

    ``stats["error"]`` is the class name of the error that ended it, if one did.
    """

    name: str
    """The name of the step."""
    duration_ms: float
    stats: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """What the step reported of its work, by name."""
    warnings: Sequence[str] = ()
    """Warnings of this step."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole build: its steps in pipeline order and the fingerprint of the result."""

    steps: Sequence[TraceStep]
    """The steps in pipeline order."""
    fingerprint: str | None
    """SHA-256 of the prompt; None if none was given."""
    started_at: datetime
    """When the build began, in UTC."""
    finished_at: datetime
    """When the build ended, in UTC."""
    total_warnings: Sequence[str] = ()
    """All warnings, in order."""

    @property
    def duration_ms(self) -> float:
        """How long the build took."""
        return (self.finished_at - self.started_at).total_seconds() * 1000

    @property
    def success(self) -> bool:
        """True if no step failed."""
        return not any("error" in step.stats for step in self.steps)


@dataclass(slots=True)
class _OpenStep:
    name: str
    started: float
    position: int
    others: float = 0.0
    """Seconds spent in other steps."""
    stats: dict[str, object] = field(default_factory=dict[str, object])
    warnings: list[str] = field(default_factory=list[str])


class TraceCollector:
    """An ``Instrumenter`` that keeps everything about one build, for development and ``--trace``.

    The next build with the same collector begins a new trace. Builds at the same time need one each.
    """

    def __init__(self) -> None:
        self._warnings: list[str] = []
        self._reported = 0
        """How many warnings belong to the builds before."""
        self._begin()

    def _begin(self) -> None:
        self._started_at = datetime.now(UTC)
        self._open: list[_OpenStep] = []
        self._finished: dict[int, TraceStep] = {}
        self._warnings = self._warnings[self._reported :]  # a build may warn before its first step
        self._count = 0

    def __call__(self, event: str, payload: Mapping[str, object]) -> None:
        """Record an event; unknown events are ignored, unknown payload keys raise."""
        known = _PAYLOAD_KEYS.get(event)
        if known is None:
            return
        extra = set(payload) - known
        if extra:
            raise ConfigError(f"event {event!r} has no payload {sorted(extra)}; it takes {sorted(known)}")
        match event:
            case "step_start":
                if self._finished and not self._open:
                    self._begin()
                self._open.append(_OpenStep(str(payload["name"]), time.perf_counter(), self._count))
                self._count += 1
            case "step_finish":
                self._close(str(payload["name"]), payload.get("stats"))
            case "step_error":
                self._close(str(payload["name"]), {"error": type(payload["error"]).__name__})
            case "warning":
                message = str(payload["message"])
                self._warnings.append(message)
                step = self._find(payload.get("step"))
                if step is not None:
                    step.warnings.append(message)
            case _:
                step = self._find(payload.get("step"))
                if step is not None:
                    step.stats[str(payload["key"])] = payload["value"]

    def to_trace(self, fingerprint: str | None = None) -> Trace:
        """Return what was collected, in pipeline order."""
        return Trace(
            steps=tuple(step for _, step in sorted(self._finished.items(), key=lambda item: item[0])),
            fingerprint=fingerprint,
            started_at=self._started_at,
            finished_at=datetime.now(UTC),
            total_warnings=tuple(self._warnings),
        )

    def _close(self, name: str, stats: object) -> None:
        if not self._open or self._open[-1].name != name:
            innermost = self._open[-1].name if self._open else None
            raise ConfigError(f"step {name!r} cannot finish: the innermost open step is {innermost!r}")
        step = self._open.pop()
        elapsed = time.perf_counter() - step.started
        if self._open:
            self._open[-1].others += elapsed
        if is_mapping(stats):
            step.stats.update(stats)
        self._finished[step.position] = TraceStep(
            name=step.name,
            duration_ms=(elapsed - step.others) * 1000,
            stats=freeze_object({key: freeze(value) for key, value in step.stats.items()}),
            warnings=tuple(step.warnings),
        )
        if not self._open:
            self._reported = len(self._warnings)

    def _find(self, name: object) -> _OpenStep | None:
        named = (step for step in reversed(self._open) if step.name == name)
        return next(named, self._open[-1] if self._open else None)
