"""The worker processes: started, kept, killed and replaced, and none left behind."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tavernkit.text.js_regex import JSRegex, limits, warm_up, workers
from tavernkit.text.js_regex import worker as worker_script
from tavernkit.text.js_regex.engine import Engine
from tavernkit.text.js_regex.worker_process import NotStartedError, OutOfTimeError, Worker, WorkerError
from tavernkit.text.js_regex.workers import BusyError, WorkerPool

ENGINE = Engine.compile("(a+)+b", "", first_group=0, group_count=1)


def within(seconds: float) -> float:
    return time.monotonic() + seconds


def only_worker(own: WorkerPool) -> Worker:
    (worker,) = own._idle
    return worker


class SlowStart:
    """Workers that do not start before they are let go."""

    def __init__(self, directory: Path, *, ready: bytes = b"") -> None:
        self._gate = directory / "gate"
        os.mkfifo(self._gate)
        self.script = directory / "slow_worker.py"
        real = Path(worker_script.__file__).read_text()
        self.script.write_text(f"import os\nos.write(1, {ready!r})\nopen({str(self._gate)!r}).read()\n{real}")

    def let_go(self) -> None:
        self._gate.open("w").close()


def test_a_worker_that_starts_slowly_is_kept_for_the_next_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = SlowStart(tmp_path)
    monkeypatch.setattr(worker_script, "__file__", str(slow.script))
    monkeypatch.setattr(limits, "MAX_IDLE_WORKERS", 1)
    own = WorkerPool()
    with pytest.raises(NotStartedError):
        own.run(ENGINE, "aab", within(0.05), everything=True)
    starting = only_worker(own)
    with pytest.raises(NotStartedError):
        own.run(ENGINE, "aab", within(0.05), everything=True)
    assert only_worker(own) is starting
    slow.let_go()
    assert list(own.run(ENGINE, "aab", within(60), everything=True)) == [0, 3, 0, 2]
    assert only_worker(own) is starting
    own.close()


def test_a_worker_that_never_starts_is_not_kept_forever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker_script, "__file__", str(SlowStart(tmp_path).script))
    monkeypatch.setattr(limits, "MAX_IDLE_WORKERS", 1)
    own = WorkerPool()
    own.warm_up()
    stuck = only_worker(own)
    monkeypatch.undo()
    stuck._made_at -= limits.WORKER_START_TIMEOUT
    assert list(own.run(ENGINE, "aab", within(60), everything=True)) == [0, 3, 0, 2]
    assert not stuck.is_alive
    own.close()


def test_a_ready_worker_is_preferred_to_one_that_is_still_starting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = WorkerPool()
    with monkeypatch.context() as patched:
        patched.setattr(worker_script, "__file__", str(SlowStart(tmp_path).script))
        patched.setattr(limits, "MAX_IDLE_WORKERS", 1)
        own.warm_up()
    starting = only_worker(own)
    own.warm_up()
    ready = own._idle[1]
    ready.wait_until_ready(within(60))
    own.run(ENGINE, "aab", within(60), everything=True)
    assert own._idle == [starting, ready]
    own.close()


def test_a_request_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ready = worker_script.REPLY.pack(worker_script.READY, 0)
    monkeypatch.setattr(worker_script, "__file__", str(SlowStart(tmp_path, ready=ready).script))
    worker = Worker()
    worker.wait_until_ready(within(60))
    with pytest.raises(OutOfTimeError):
        worker.ask(ENGINE, "a" * 10_000_000, within(0.05), everything=True)
    worker.stop()


def test_a_call_waits_for_a_free_worker_no_longer_than_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_WORKERS", 1)
    own = WorkerPool()
    with own._slots, pytest.raises(BusyError):
        own.run(ENGINE, "aab", within(0.05), everything=True)
    with pytest.raises(BusyError):
        own.run(ENGINE, "aab", within(-1), everything=True)
    assert own.idle_count == 0
    assert list(own.run(ENGINE, "aab", within(60), everything=True)) == [0, 3, 0, 2]
    own.close()


def test_a_worker_that_ran_out_of_time_is_gone_and_another_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_IDLE_WORKERS", 1)
    own = WorkerPool()
    own.warm_up()
    first = only_worker(own)
    first.wait_until_ready(within(60))
    with pytest.raises(OutOfTimeError) as told:
        own.run(ENGINE, "a" * 64, within(0.2), everything=True)
    assert told.value.ran > 0
    assert not first.is_alive
    second = only_worker(own)
    assert second is not first
    assert list(own.run(ENGINE, "aab", within(60), everything=True)) == [0, 3, 0, 2]
    assert only_worker(own) is second
    own.close()
    assert own.idle_count == 0
    assert not second.is_alive


def test_warming_up_starts_what_is_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    own = WorkerPool()
    monkeypatch.setattr(workers, "pool", own)
    warm_up()
    idle = list(own._idle)
    assert len(idle) == limits.MAX_IDLE_WORKERS
    warm_up()
    assert own._idle == idle
    own.run(ENGINE, "aab", within(60), everything=True)
    assert set(own._idle) == set(idle)
    own.close()


def test_warming_up_where_nothing_starts_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    own = WorkerPool()
    own.warm_up()
    assert own.idle_count == 0


def test_an_idle_worker_that_died_is_replaced() -> None:
    own = WorkerPool()
    own.warm_up()
    for worker in own._idle:
        worker._process.kill()
        worker._process.wait()
    assert list(own.run(ENGINE, "xab", within(60), everything=False)) == [1, 3, 1, 2]
    own.close()


def test_idle_workers_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WORKER_IDLE_SECONDS", 0.05)
    worker = Worker()
    worker.wait_until_ready(within(60))
    worker.ask(ENGINE, "aab", within(60), everything=True)
    assert worker._process.wait(timeout=30) != 0
    worker.stop()


def test_a_worker_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    monkeypatch.setattr(workers, "pool", WorkerPool())
    warnings: list[str] = []
    assert JSRegex.compile("(a+)+e").search("a" * 64, warn=warnings.append) is None
    assert "could not be run safely" in warnings[0]


def test_a_worker_that_ends_without_an_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_script, "__file__", os.devnull)
    own = WorkerPool()
    with pytest.raises(WorkerError, match="without an answer"):
        own.run(ENGINE, "aab", within(60), everything=True)


def test_where_pipes_cannot_be_waited_for_a_timer_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    own = WorkerPool()
    assert list(own.run(ENGINE, "aab", within(60), everything=True)) == [0, 3, 0, 2]
    with pytest.raises(OutOfTimeError):
        own.run(ENGINE, "a" * 64, within(0.2), everything=True)
    own.close()


def test_a_first_match_is_found_whatever_would_come_after_it() -> None:
    text = "b" + "a" * 60 + "b"
    regex, warnings = JSRegex("(a|aa)+$|^b"), list[str]()
    found = regex.search(text, timeout=5, warn=warnings.append)
    assert found is not None
    assert (found.start, found.text) == (0, "b")
    assert regex.replace(text, "x", timeout=5, warn=warnings.append) == "x" + text[1:]
    assert warnings == []
    assert JSRegex("(c|cc)+$|^b").search("c" * 20 + "d") is None


def test_large_texts_and_many_matches_go_through() -> None:
    own = WorkerPool()
    offsets = own.run(
        Engine.compile("(.)", "", first_group=0, group_count=1), "ab" * 100_000, deadline=within(60), everything=True
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
