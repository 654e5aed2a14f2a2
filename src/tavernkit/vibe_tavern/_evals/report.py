"""The report of an evaluation: records, summaries, JSON and Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_object, thaw_object
from tavernkit.errors import Warn, log_warning
from tavernkit.models import ConnectionFailedError, DecodeError, HTTPError, ProviderError, RequestTimeoutError
from tavernkit.vibe_tavern.errors import ToolLoopLimitError, ToolUseError

FAILURE_SAMPLES: Final = 3
"""Failed runs that a summary quotes."""

_RUNS_FOLDER: Final = "runs"
_Z: Final = 1.96
"""Standard deviations of a 95 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run: its settings, whether it succeeded, and what happened."""

    config: JsonObject
    ok: bool
    elapsed_ms: int
    error: str | None = None
    error_category: str | None = None
    text: str = ""
    language_shape: str | None = None
    total_tokens: int = 0
    details: JsonObject = field(default_factory=dict[str, Json])

    def to_dict(self) -> JsonObject:
        """The record as JSON."""
        return {
            "config": self.config,
            "ok": self.ok,
            "elapsed_ms": self.elapsed_ms,
            "error": self.error,
            "error_category": self.error_category,
            "text": self.text,
            "language_shape": self.language_shape,
            "total_tokens": self.total_tokens,
            "details": self.details,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, object]) -> RunRecord:
        """Read the output of ``to_dict()``."""
        plain = thaw_object(value)
        config, details = plain.get("config"), plain.get("details")
        elapsed, tokens = plain.get("elapsed_ms"), plain.get("total_tokens")
        return cls(
            config=config if is_object(config) else {},
            ok=plain.get("ok") is True,
            elapsed_ms=elapsed if isinstance(elapsed, int) else 0,
            error=_optional_text(plain.get("error")),
            error_category=_optional_text(plain.get("error_category")),
            text=str(plain.get("text") or ""),
            language_shape=_optional_text(plain.get("language_shape")),
            total_tokens=tokens if isinstance(tokens, int) else 0,
            details=details if is_object(details) else {},
        )

    @property
    def answered(self) -> bool:
        """True if the model answered; False if the endpoint was unreachable or refused the key."""
        return self.error_category not in UNANSWERED

    @property
    def name(self) -> str:
        """The name of the run in reports."""
        return " · ".join(str(part) for part in self.config.values() if part is not None)


@dataclass(frozen=True, slots=True)
class EvalReport:
    """All records in order, and their summary."""

    records: Sequence[RunRecord]
    """The runs that were made."""
    missing: int = 0
    """Runs that were not made, because the budget was used up."""

    def summary(self) -> JsonObject:
        """Everything in numbers: overall, and by suite, model, scenario, strategy and language."""
        return {
            "overall": aggregate(self.records),
            "missing": self.missing,
            "suites": self._by("suite"),
            "models": self._by(*self._model_keys),
            "scenarios": self._by("scenario"),
            "models_and_scenarios": self._by(*self._model_keys, "scenario"),
            "scenarios_and_strategies": self._by("scenario", "strategy"),
            "scenarios_and_languages": self._by("scenario", "language"),
            "sampling_profiles": self._by("sampling_profile"),
        }

    def to_json(self) -> str:
        """The summary and every record as JSON text."""
        body: JsonObject = {"summary": self.summary(), "runs": [record.to_dict() for record in self.records]}
        return json.dumps(body, ensure_ascii=False, indent=2)

    def to_markdown(self) -> str:
        """The summary as tables, and the failures by category."""
        models = self._groups(*self._model_keys)
        parts = ["# Evaluation", _table("suite", self._by("suite")), "## Models"]
        parts.append(_table("model", self._by(*self._model_keys)))
        parts += ["## Scenarios", _table("scenario · strategy", self._by("scenario", "strategy"))]
        if any(record.config.get("language") for record in self.records):
            parts += ["## Languages", _table("scenario · language", self._by("scenario", "language"))]
        for name, records in models.items() if len(models) > 1 else ():
            own = EvalReport(tuple(records))
            parts += [f"## {name}", _table("suite", own._by("suite"))]
            parts.append(_table("scenario · strategy", own._by("scenario", "strategy")))
        overall = aggregate(self.records)["errors"]
        if overall:
            assert is_object(overall)
            rows = [f"| {category} | {count} |" for category, count in overall.items()]
            parts += ["## Failures", "\n".join(["| category | runs |", "|---|---:|", *rows])]
            failed = [record for record in self.records if not record.ok][:FAILURE_SAMPLES]
            parts.append("\n".join(f"- {record.name}: {_one_line(record.error or '')}" for record in failed))
        return "\n\n".join(parts) + "\n"

    def write(self, folder: Path) -> None:
        """Write one file per run, ``summary.json`` and ``report.md`` to a folder."""
        runs = folder / _RUNS_FOLDER
        runs.mkdir(parents=True, exist_ok=True)
        for number, record in enumerate(self.records, start=1):
            _write(runs / f"{number:05d}.json", json.dumps(record.to_dict(), ensure_ascii=False, indent=2))
        _write(folder / "summary.json", json.dumps(self.summary(), ensure_ascii=False, indent=2))
        _write(folder / "report.md", self.to_markdown())

    @classmethod
    def read(cls, folder: Path, *, warn: Warn = log_warning) -> EvalReport:
        """Read the run files of a folder; unreadable files are left out with a warning.

        Args:
            folder: The folder of the runs.
            warn: Called with each warning.
        """
        records: list[RunRecord] = []
        for path in sorted((folder / _RUNS_FOLDER).glob("*.json")):
            try:
                value: object = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, RecursionError) as error:
                warn(f"{path.name} was left out: {error}")
                continue
            if is_object(value):
                records.append(RunRecord.from_dict(value))
            else:
                warn(f"{path.name} was left out: it is not a record of a run")
        return cls(tuple(records))

    @property
    def _model_keys(self) -> tuple[str, ...]:
        """Return the names of models, with the provider if there are several."""
        providers = {str(record.config.get("provider")) for record in self.records}
        return ("provider", "model") if len(providers) > 1 else ("model",)

    def _by(self, *keys: str) -> JsonObject:
        return {name: aggregate(group) for name, group in self._groups(*keys).items()}

    def _groups(self, *keys: str) -> dict[str, list[RunRecord]]:
        groups: dict[str, list[RunRecord]] = {}
        for record in self.records:
            name = " · ".join(str(record.config.get(key)) for key in keys if record.config.get(key) is not None)
            groups.setdefault(name, []).append(record)
        return groups


def aggregate(records: Sequence[RunRecord]) -> JsonObject:
    """Add up records: success rate with its 95 % interval, times, tokens, failures by category, samples."""
    fine = sum(record.ok for record in records)
    times = [record.elapsed_ms for record in records]
    low, high = wilson_interval(fine, len(records))
    errors: dict[str, int] = {}
    for record in records:
        if record.error_category is not None:
            errors[record.error_category] = errors.get(record.error_category, 0) + 1
    failed = [record for record in records if not record.ok]
    most_first = sorted(errors, key=lambda category: (-errors[category], category))
    return {
        "runs": len(records),
        "ok": fine,
        "ok_rate": round(fine / len(records), 4) if records else 0.0,
        "ok_rate_low": round(low, 4),
        "ok_rate_high": round(high, 4),
        "ms_p50": percentile(times, 0.50),
        "ms_p95": percentile(times, 0.95),
        "total_tokens": sum(record.total_tokens for record in records),
        "modes": _histogram(records, lambda record: record.details.get("mode")),
        "errors": {category: errors[category] for category in most_first},
        "failure_samples": [
            {"run": record.name, "category": record.error_category, "error": record.error}
            for record in failed[:FAILURE_SAMPLES]
        ],
    }


def percentile(values: Iterable[int], share: float) -> int | None:
    """Return the value below which a share of the values lies; None for no values."""
    ordered = sorted(values)
    return ordered[min(math.floor(len(ordered) * share), len(ordered) - 1)] if ordered else None


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a success rate."""
    if not trials:
        return 0.0, 1.0
    rate = successes / trials
    spread = 1 + _Z**2 / trials
    centre = (rate + _Z**2 / (2 * trials)) / spread
    margin = _Z * math.sqrt(rate * (1 - rate) / trials + _Z**2 / (4 * trials**2)) / spread
    return max(centre - margin, 0.0), min(centre + margin, 1.0)


def _histogram(records: Sequence[RunRecord], value: Callable[[RunRecord], Json]) -> JsonObject:
    counts: dict[str, int] = {}
    for record in records:
        found = value(record)
        if isinstance(found, str):
            counts[found] = counts.get(found, 0) + 1
    return {**counts}


def _write(path: Path, text: str) -> None:
    """Write a text. Half characters, which an answer that was cut off may end in, are escaped as in JSON."""
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _table(heading: str, groups: JsonObject) -> str:
    lines = [
        f"| {heading} | runs | ok | rate | 95 % | p50 ms | p95 ms | failures |",
        "|---|---:|---:|---:|---|---:|---:|---|",
    ]
    for name, numbers in groups.items():
        assert is_object(numbers)
        errors = numbers["errors"]
        assert is_object(errors)
        failures = ", ".join(f"{category} {count}" for category, count in errors.items()) or "–"
        low, high = numbers["ok_rate_low"], numbers["ok_rate_high"]
        lines.append(
            f"| {name} | {numbers['runs']} | {numbers['ok']} | {_percent(numbers['ok_rate'])} "
            f"| {_percent(low)} to {_percent(high)} | {numbers['ms_p50']} | {numbers['ms_p95']} | {failures} |"
        )
    return "\n".join(lines)


def _percent(rate: Json) -> str:
    return f"{rate:.0%}" if isinstance(rate, float) else "–"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _optional_text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


ASSERTION_FAILED: Final = "ASSERTION_FAILED"
EMPTY_ASSISTANT_TEXT: Final = "EMPTY_ASSISTANT_TEXT"
LANGUAGE_DRIFT: Final = "LANGUAGE_DRIFT"

RETRYABLE: Final = frozenset((EMPTY_ASSISTANT_TEXT, "CONNECTION_ERROR", "TIMEOUT_ERROR", "DECODE_ERROR"))
"""Failures that are worth a retry: network errors and empty answers."""

UNANSWERED: Final = frozenset(
    (
        "CONNECTION_ERROR",
        "TIMEOUT_ERROR",
        "AUTH",
        "PAYMENT_REQUIRED",
        "FORBIDDEN",
        "NOT_FOUND",
        "TIMEOUT",
        "RATE_LIMIT",
        "UPSTREAM_5XX",
    )
)
"""Runs that say nothing about the model, because it did not get the request; they are repeated when resuming."""

_STATUSES: Final = {
    401: "AUTH",
    402: "PAYMENT_REQUIRED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    408: "TIMEOUT",
    409: "CONFLICT",
    413: "REQUEST_TOO_LARGE",
    422: "UNPROCESSABLE",
    429: "RATE_LIMIT",
}


def error_category(error: BaseException) -> str:
    """Name the category of an error."""
    if isinstance(error, HTTPError):
        return http_category(error.status, str(error))
    if isinstance(error, (ToolUseError, ToolLoopLimitError)):
        return error.code
    if isinstance(error, (RequestTimeoutError, TimeoutError)):
        return "TIMEOUT_ERROR"
    if isinstance(error, (ConnectionFailedError, ConnectionError)):
        return "CONNECTION_ERROR"
    return "DECODE_ERROR" if isinstance(error, (DecodeError, ProviderError)) else "EXCEPTION"


def http_category(status: int, message: str) -> str:
    """Name the category of an error status."""
    if status == 404 and "tool use" in message.lower():
        return "NO_TOOL_USE_ENDPOINT"
    if status in _STATUSES:
        return _STATUSES[status]
    return "UPSTREAM_5XX" if status >= 500 else f"HTTP_{status}"
