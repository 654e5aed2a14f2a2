"""Time limits: no pattern holds its caller for longer than its budget, and nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tavernkit._text.js_regex import JSRegex, guard
from tavernkit._workers import BusyError, Job, JobFailedError, OutOfTimeError, StuckError, WorkerError, limits
from tavernkit._workers import pool as workers
from tavernkit._workers.pool import WorkerPool
from tavernkit._workers.worker import Worker
from tavernkit.errors import noting_degraded, refuse_warning

CATASTROPHES = [
    ("(a+)+$", "a" * 60 + "!"),
    ("(a|aa)+$", "a" * 60 + "!"),
    ("(a|a?)+$", "a" * 60 + "!"),
    ("(.*a){20}", "a" * 30 + "b" * 300),
    ("(x+x+)+y", "x" * 60),
    ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 60),
    ("(?<=(a+)+b)c", "a" * 60 + "c" + "xc"),
    ("(a*)*\\1b", "a" * 60),
    ("(?=(a+)+b)", "a" * 60),
    ("(\\w+\\s?)+$", "some words " * 20 + "!"),
    ("(?:(?:a|b)|(?:b|a))+c", "ab" * 40),
    ("(.+)\\1{3}x", "ab" * 5000),
    ("\\s+$", " " * 200_000 + "x"),
    (".*.*.*=x", "x" * 5000),
    ("(?:a?){40}a{40}", "a" * 39),
    ("([^\\]]*\\])*\\[", "]" * 200_000),
    ("(((x*?|)+)+|){0,3}y", "a"),
]

BUDGET = 0.2
"""Seconds of processor time that hopeless calls get."""


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Worker]]:
    """Every worker that a test makes, in a pool of its own."""
    workers_made: list[Worker] = []

    class RecordedWorker(Worker):
        def __init__(self, jobs: Sequence[Job] = ()) -> None:
            super().__init__(jobs)
            workers_made.append(self)

    own = WorkerPool()
    monkeypatch.setattr(workers, "Worker", RecordedWorker)
    monkeypatch.setattr(workers, "pool", own)
    yield workers_made
    own.close()
    assert not any(worker.is_alive for worker in workers_made)


@pytest.mark.parametrize(("source", "text"), CATASTROPHES, ids=[source for source, _ in CATASTROPHES])
def test_hopeless_matches_are_given_up(source: str, text: str) -> None:
    warnings: list[str] = []
    assert JSRegex(source).search(text, timeout=0.05, warn=warnings.append) is None
    assert len(warnings) <= 1
    if warnings:
        assert "counts as no match" in warnings[0]


def test_a_call_that_was_given_up_says_so_and_changes_nothing() -> None:
    regex = JSRegex.compile("(a+)+b", "g")
    text = "a" * 64
    warnings: list[str] = []
    assert regex.replace(text, "x", timeout=BUDGET, warn=warnings.append) == text
    assert regex.find_all(text, timeout=BUDGET, warn=warnings.append) == []
    assert regex.split(text, timeout=BUDGET, warn=warnings.append) == [text]
    assert regex.test(text, timeout=BUDGET, warn=warnings.append) is False
    assert warnings[0] == "the regex /(a+)+b/g took longer than 200 ms: it counts as no match"
    assert len(warnings) == 4
    assert regex.search(text, timeout=BUDGET) is None


def test_long_patterns_are_shortened_in_warnings() -> None:
    warnings: list[str] = []
    JSRegex.compile(f"(a+)+{'b' * 500}").search("a" * 64, timeout=0.02, warn=warnings.append)
    assert len(warnings[0]) < 200


def test_the_same_hopeless_call_is_not_paid_for_twice(made: list[Worker]) -> None:
    regex = JSRegex.compile("(a+)+c")
    text = "a" * 70
    warnings: list[str] = []
    regex.search(text, timeout=BUDGET, warn=warnings.append)
    count = len(made)
    for _ in range(20):
        regex.search(text, timeout=BUDGET, warn=warnings.append)
    assert len(made) == count
    assert "took longer than 200 ms" in warnings[-1]


def test_a_larger_budget_tries_again() -> None:
    regex = JSRegex.compile("(a|aa)+d")
    text = "a" * 26
    assert not regex._guard.is_quick(text, 0.001)
    warnings: list[str] = []
    regex.search(text, timeout=0.0001, warn=warnings.append)
    assert regex.search(text, timeout=20, warn=warnings.append) is None
    assert not any("20000" in warning for warning in warnings)


def test_guarded_matches_are_the_same_as_direct_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    regex = JSRegex.compile("(?:(?<=(é)))?(\\w+)(?:\\s|(x))?", "g")
    text = "éa bcx 😀 d"
    direct = [(match.spans, match.groups) for match in regex.find_all(text)]
    replaced = regex.replace(text, "[$2]")
    from_middle = regex.search(text, 3)
    monkeypatch.setattr(guard.Guard, "is_quick", lambda *_: False)
    assert [(match.spans, match.groups) for match in regex.find_all(text, timeout=30)] == direct
    assert regex.replace(text, "[$2]", timeout=30) == replaced
    found = regex.search(text, 3, timeout=30)
    assert found is not None
    assert from_middle is not None
    assert found.spans == from_middle.spans
    assert JSRegex.compile("nowhere").search(text, timeout=30) is None


def test_without_a_time_limit_everything_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "pool", None)
    assert JSRegex.compile("(a+)+b").search("a" * 12, timeout=None) is None
    assert JSRegex.compile("(a+)+").find_all("aaa", timeout=None)


class Refusing:
    """A pool that gives no answers."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        self.calls = 0

    def run(self, *_: object, **__: object) -> None:
        self.calls += 1
        raise self.reason


@pytest.mark.parametrize(
    ("reason", "told", "remembered"),
    [
        (OutOfTimeError(), "took longer than 100 ms", True),
        (StuckError("took long"), "was stopped because the machine is too busy (took long)", False),
        (BusyError("no worker"), "was stopped because the machine is too busy (no worker)", False),
        (WorkerError("the worker process is gone"), "could not be run safely: the worker process is gone", False),
        (JobFailedError("no memory"), "could not be run safely: no memory", False),
    ],
)
def test_the_warning_says_why_and_only_the_match_itself_is_to_blame(
    monkeypatch: pytest.MonkeyPatch, reason: Exception, told: str, remembered: bool
) -> None:
    refusing = Refusing(reason)
    monkeypatch.setattr(workers, "pool", refusing)
    monkeypatch.setattr(guard, "_given_up", type(guard._given_up)(8))
    regex = JSRegex.compile("(a+)+z")
    warnings: list[str] = []
    with noting_degraded() as degraded:
        for _ in range(2):
            assert regex.search("a" * 64, warn=warnings.append) is None
    assert warnings[0] == f"the regex /(a+)+z/ {told}: it counts as no match"
    assert bool(degraded) == isinstance(reason, StuckError)
    assert refusing.calls == (1 if remembered else 2)


def test_more_threads_than_workers_are_all_served(made: list[Worker]) -> None:
    threads_before = threading.active_count()
    warnings: list[str] = []

    def run(index: int) -> None:
        source, text = CATASTROPHES[index % 3]
        regex = JSRegex.compile(f"(?:{source}){{{index + 1}}}")
        assert regex.search(text, timeout=0.05, warn=warnings.append) is None

    with ThreadPoolExecutor(2 * limits.MAX_WORKERS) as threads:
        list(threads.map(run, range(2 * limits.MAX_WORKERS)))
    assert len(warnings) == 2 * limits.MAX_WORKERS
    assert all("took longer than 50 ms" in warning for warning in warnings)
    assert threading.active_count() == threads_before
    assert sum(worker.is_alive for worker in made) <= limits.MAX_IDLE_WORKERS


def test_a_busy_machine_changes_no_result() -> None:
    """Harmless calls get what they need, however many others want the processor."""
    code = "while True: pass"
    hogs = [subprocess.Popen([sys.executable, "-S", "-c", code]) for _ in range(16)]
    try:
        regex = JSRegex("(\\w+\\s?)+\\.", "g")
        for index in range(3):
            assert len(regex.find_all("one two three. " * (20 + index), warn=refuse_warning)) == 20 + index
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def test_many_threads_share_the_workers() -> None:
    def run(index: int) -> int:
        assert JSRegex.compile(f"(a+)+x{index}").search("a" * 64, timeout=0.05) is None
        return len(JSRegex.compile("(\\w+\\s?)+\\.", "g").find_all("one two three. " * 20, timeout=60))

    with ThreadPoolExecutor(12) as threads:
        assert set(threads.map(run, range(24))) == {20}
    assert len(workers.pool._idle) <= limits.MAX_IDLE_WORKERS


def test_a_budget_beyond_all_clocks_is_still_one() -> None:
    assert JSRegex.compile("(\\w+\\s?)+\\.", "g").test("one two three. " * 20, timeout=float("inf"))


def test_a_first_match_is_found_whatever_would_come_after_it() -> None:
    text = "b" + "a" * 60 + "b"
    regex, warnings = JSRegex("(a|aa)+$|^b"), list[str]()
    found = regex.search(text, timeout=5, warn=warnings.append)
    assert found is not None
    assert (found.start, found.text) == (0, "b")
    assert regex.replace(text, "x", timeout=5, warn=warnings.append) == "x" + text[1:]
    assert warnings == []
    assert JSRegex("(c|cc)+$|^b").search("c" * 20 + "d") is None
