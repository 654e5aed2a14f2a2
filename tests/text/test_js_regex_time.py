"""Time limits: no pattern holds its caller for longer than its budget, and nothing is left behind."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tavernkit.text.js_regex import JSRegex, guard, limits, workers
from tavernkit.text.js_regex.engine import Engine
from tavernkit.text.js_regex.workers import OutOfTimeError, Worker, WorkerError, WorkerPool, pool

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

SCHEDULING = 2.0
"""Seconds that a busy machine may add to a call before it is our fault."""


@pytest.mark.parametrize(("source", "text"), CATASTROPHES, ids=[source for source, _ in CATASTROPHES])
def test_hopeless_matches_are_given_up(source: str, text: str) -> None:
    warnings: list[str] = []
    started = time.monotonic()
    assert JSRegex(source).search(text, timeout=0.05, warn=warnings.append) is None
    assert time.monotonic() - started < 0.05 + SCHEDULING
    assert len(warnings) <= 1
    if warnings:
        assert "counts as no match" in warnings[0]


def test_a_call_that_was_given_up_says_so_and_changes_nothing() -> None:
    regex = JSRegex.compile("(a+)+b", "g")
    text = "a" * 64
    warnings: list[str] = []
    assert regex.replace(text, "x", timeout=0.02, warn=warnings.append) == text
    assert regex.find_all(text, timeout=0.02, warn=warnings.append) == []
    assert regex.split(text, timeout=0.02, warn=warnings.append) == [text]
    assert regex.test(text, timeout=0.02, warn=warnings.append) is False
    assert warnings[0] == "the regex /(a+)+b/g took longer than 20 ms: it counts as no match"
    assert len(warnings) == 4
    assert regex.search(text, timeout=0.02) is None


def test_long_patterns_are_shortened_in_warnings() -> None:
    warnings: list[str] = []
    JSRegex.compile(f"(a+)+{'b' * 500}").search("a" * 64, timeout=0.02, warn=warnings.append)
    assert len(warnings[0]) < 200


def test_the_same_hopeless_call_is_not_paid_for_twice() -> None:
    regex = JSRegex.compile("(a+)+c")
    text = "a" * 70
    warnings: list[str] = []
    regex.search(text, timeout=0.05, warn=warnings.append)
    started = time.monotonic()
    for _ in range(20):
        regex.search(text, timeout=0.05, warn=warnings.append)
    assert time.monotonic() - started < 20 * 0.05
    assert "a moment ago" in warnings[-1]


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


def test_many_threads_at_once() -> None:
    def run(index: int) -> tuple[int, float]:
        started = time.monotonic()
        hopeless = JSRegex.compile(f"(a+)+x{index}").search("a" * 64, timeout=0.1)
        assert hopeless is None
        fine = JSRegex.compile("(\\w+\\s?)+\\.", "g").find_all("one two three. " * 20, timeout=30)
        return len(fine), time.monotonic() - started

    with ThreadPoolExecutor(12) as threads:
        results = list(threads.map(run, range(24)))
    assert {count for count, _ in results} == {20}
    assert pool.idle_count <= limits.MAX_IDLE_WORKERS


def test_no_threads_are_left() -> None:
    before = threading.active_count()
    JSRegex.compile("(a+)+y").search("a" * 64, timeout=0.02)
    assert threading.active_count() == before


ENGINE = Engine.compile("(a+)+b", "", first_group=0, group_count=1)


def test_computing_is_limited_by_the_system_and_time_by_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUSY_FACTOR", 1000)
    worker = Worker()
    with pytest.raises(OutOfTimeError):
        worker.ask(ENGINE, "a" * 64, 0.05, everything=True)
    worker.stop()
    monkeypatch.setattr(workers.worker, "has_timers", lambda: False)
    worker = Worker()
    with pytest.raises(OutOfTimeError):
        worker.ask(ENGINE, "a" * 64, 0.05, everything=True)
    worker.stop()


def test_a_worker_that_ran_out_of_time_is_gone() -> None:
    own = WorkerPool()
    with pytest.raises(OutOfTimeError):
        own.run(ENGINE, "a" * 64, 0.05, everything=True)
    assert own.idle_count == 0
    assert list(own.run(ENGINE, "aab", 10, everything=True)) == [0, 3, 0, 2]
    assert own.idle_count == 1
    own.close()
    assert own.idle_count == 0


def test_an_idle_worker_that_died_is_replaced() -> None:
    own = WorkerPool()
    own.run(ENGINE, "aab", 10, everything=True)
    own._idle[0]._process.kill()
    own._idle[0]._process.wait()
    assert list(own.run(ENGINE, "xab", 10, everything=False)) == [1, 3, 1, 2]
    own.close()


def test_idle_workers_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WORKER_IDLE_SECONDS", 0.05)
    worker = Worker()
    worker.ask(ENGINE, "aab", 10, everything=True)
    assert worker._process.wait(timeout=30) != 0
    worker.stop()


def test_a_worker_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    monkeypatch.setattr(workers, "pool", WorkerPool())
    warnings: list[str] = []
    assert JSRegex.compile("(a+)+e").search("a" * 64, warn=warnings.append) is None
    assert "could not be run safely" in warnings[0]


def test_a_worker_that_ends_without_an_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.worker, "__file__", os.devnull)
    own = WorkerPool()
    with pytest.raises(WorkerError, match="without an answer"):
        own.run(ENGINE, "aab", 10, everything=True)


def test_where_pipes_cannot_be_waited_for_a_timer_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    own = WorkerPool()
    assert list(own.run(ENGINE, "aab", 10, everything=True)) == [0, 3, 0, 2]
    with pytest.raises(OutOfTimeError):
        own.run(ENGINE, "a" * 64, 0.05, everything=True)
    own.close()


def test_large_texts_and_many_matches_go_through() -> None:
    own = WorkerPool()
    offsets = own.run(
        Engine.compile("(.)", "", first_group=0, group_count=1), "ab" * 100_000, timeout=60, everything=True
    )
    assert len(offsets) == 200_000 * 4
    own.close()


def test_a_forked_child_has_workers_of_its_own() -> None:
    script = """
import os, sys
from tavernkit.text.js_regex import JSRegex
regex = JSRegex.compile("(\\\\w+\\\\s?)+\\\\.", "g")
text = "one two three. " * 20
assert len(regex.find_all(text, timeout=30)) == 20
child = os.fork()
if child == 0:
    assert len(regex.find_all(text, timeout=30)) == 20
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert len(regex.find_all(text, timeout=30)) == 20
print("ok")
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_workers_end_with_the_interpreter_also_when_it_is_killed() -> None:
    script = """
import sys
from tavernkit.text.js_regex import JSRegex
from tavernkit.text.js_regex.workers import pool
JSRegex.compile("(\\\\w+\\\\s?)+\\\\.", "g").find_all("one two three. " * 20, timeout=30)
print(pool._idle[0]._process.pid, flush=True)
sys.stdin.read()
"""
    for kill in (False, True):
        program = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert program.stdout is not None
        worker = int(program.stdout.readline())
        if kill:
            program.kill()
        program.communicate(timeout=60)
        wait_until_gone(worker)


def wait_until_gone(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([process], [], [], 30)[0], f"process {pid} is still there"
    os.close(process)


def test_importing_starts_nothing() -> None:
    script = """
import sys, threading
import tavernkit.text.js_regex
assert threading.active_count() == 1
assert "tavernkit.text.js_regex.workers" not in sys.modules
assert "subprocess" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
