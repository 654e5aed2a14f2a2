"""The worker processes: started, kept, killed and replaced, and none left behind."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tavernkit._text.js_regex import JSRegex, guard, warm_up
from tavernkit._text.js_regex.match import Engine
from tavernkit._workers import BusyError, Job, JobFailedError, OutOfTimeError, StuckError, WorkerError, limits, process
from tavernkit._workers import pool as pools
from tavernkit._workers import worker as workers
from tavernkit._workers.pool import Session, WorkerPool
from tavernkit._workers.worker import Worker

ENGINE = Engine.compile("(a+)+b", "", first_group=0, group_count=1)


def within(seconds: float) -> float:
    return time.monotonic() + seconds


def payload(text: str, *, everything: bool = True, engine: Engine = ENGINE) -> bytes:
    return guard._payload(engine, text.encode(), everything=everything)


def find(own: WorkerPool, text: str, seconds: float = 60, *, everything: bool = True) -> Sequence[int]:
    reply = own.run(guard.JOB, payload(text, everything=everything), seconds)
    return list(struct.unpack(f"<{len(reply) // 8}q", reply))


def job(directory: Path, body: str) -> Job:
    """A job of a few lines; ``n`` counts its requests."""
    lines = ["class Handler:", "    n = 0", "    def handle(self, payload, ask):", "        self.n += 1"]
    file = directory / f"job_{len(list(directory.iterdir()))}.py"
    file.write_text("\n".join([*lines, *(f"        {line}" for line in body.splitlines())]))
    return Job(file)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    """A pool of the test's own."""
    made = WorkerPool()
    monkeypatch.setattr(pools, "pool", made)
    yield made
    made.close()


def only_worker(own: WorkerPool) -> Worker:
    (worker,) = own._idle
    return worker


class SlowStart:
    """Workers that do not start before they are let go."""

    def __init__(self, directory: Path, *, ready: bytes = b"") -> None:
        self._gate = directory / "gate"
        os.mkfifo(self._gate)
        self.script = directory / "slow_worker.py"
        start = f"import runpy\nrunpy.run_path({process.__file__!r}, run_name='__main__')"
        self.script.write_text(f"import os\nos.write(1, {ready!r})\nopen({str(self._gate)!r}).read()\n{start}")

    def let_go(self) -> None:
        self._gate.open("w").close()


def test_a_worker_that_starts_too_slowly_counts_as_a_busy_machine(
    own: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "__file__", str(SlowStart(tmp_path).script))
    monkeypatch.setattr(limits, "MAX_WAIT_SECONDS", 0.05)
    with pytest.raises(BusyError, match="did not start within"):
        find(own, "aab")


def test_a_worker_that_starts_slowly_is_waited_for(
    own: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = SlowStart(tmp_path)
    monkeypatch.setattr(process, "__file__", str(slow.script))
    monkeypatch.setattr(limits, "MAX_IDLE_WORKERS", 1)
    own.warm_up()
    starting = only_worker(own)
    slow.let_go()
    assert find(own, "aab", 0.1) == [0, 3, 0, 2]
    assert only_worker(own) is starting


def test_a_worker_that_never_starts_is_not_kept_forever(
    own: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(process, "__file__", str(SlowStart(tmp_path).script))
        patched.setattr(limits, "MAX_IDLE_WORKERS", 1)
        own.warm_up()
    stuck = only_worker(own)
    stuck._made_at -= limits.MAX_WAIT_SECONDS
    assert find(own, "aab") == [0, 3, 0, 2]
    assert not stuck.is_alive


def test_a_ready_worker_is_preferred_to_one_that_is_still_starting(
    own: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(process, "__file__", str(SlowStart(tmp_path).script))
        patched.setattr(limits, "MAX_IDLE_WORKERS", 1)
        own.warm_up()
    starting = only_worker(own)
    own.warm_up()
    ready = own._idle[1]
    ready.wait_until_ready(within(60))
    find(own, "aab")
    assert own._idle == [starting, ready]


def test_a_request_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "__file__", str(SlowStart(tmp_path, ready=b"\0").script))
    monkeypatch.setattr(limits, "LEAST_WALL_SECONDS", 0.05)
    worker = Worker()
    worker.wait_until_ready(within(60))
    with pytest.raises(StuckError):
        worker.request(guard.JOB, payload("a" * 10_000_000), 0.001)
    worker.stop()


def test_a_call_waits_for_a_free_worker(own: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(limits, "MAX_WORKERS", 1)
    own._reset()
    with own._slots, pytest.raises(BusyError, match="all workers were busy"):
        find(own, "aab")
    monkeypatch.setattr(limits, "MAX_WAIT_SECONDS", 60)
    assert find(own, "aab") == [0, 3, 0, 2]


def test_processor_time_ends_a_request_and_another_worker_is_there_at_once(
    own: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_IDLE_WORKERS", 1)
    own.warm_up()
    first = only_worker(own)
    first.wait_until_ready(within(60))
    with pytest.raises(OutOfTimeError):
        find(own, "a" * 64, 0.05)
    assert not first.is_alive
    second = only_worker(own)
    assert second is not first
    assert find(own, "aab") == [0, 3, 0, 2]
    assert only_worker(own) is second
    own.close()
    assert len(own._idle) == 0
    assert not second.is_alive


def test_waiting_is_no_processor_time(own: WorkerPool, tmp_path: Path) -> None:
    assert own.run(job(tmp_path, "import select; select.select([], [], [], 0.3); return payload"), b"x", 0.1) == b"x"


def test_what_takes_far_longer_by_the_clock_counts_as_stuck(
    own: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(limits, "LEAST_WALL_SECONDS", 0.2)
    with pytest.raises(StuckError):
        own.run(job(tmp_path, "import select; select.select([], [], [], 60)"), b"", 0.001)


def test_memory_has_a_limit(own: WorkerPool, tmp_path: Path) -> None:
    with pytest.raises(JobFailedError, match="memory"):
        own.run(job(tmp_path, "return bytes(2 << 30)"), b"", 10)


def test_a_job_that_fails_is_reported_and_its_worker_kept(own: WorkerPool, tmp_path: Path) -> None:
    with pytest.raises(JobFailedError, match="ValueError: no"):
        own.run(job(tmp_path, "raise ValueError('no')"), b"", 10)
    assert find(own, "aab") == [0, 3, 0, 2]


def test_a_worker_that_says_too_much_is_not_believed(
    own: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(limits, "MAX_MESSAGE", 1000)
    with pytest.raises(WorkerError, match="too much"):
        own.run(job(tmp_path, "return bytes(1001)"), b"", 10)


def test_what_a_job_prints_does_no_harm(own: WorkerPool, tmp_path: Path) -> None:
    assert own.run(job(tmp_path, "print('x', flush=True); return b'done'"), b"", 10) == b"done"


def test_a_job_cannot_write_files(own: WorkerPool, tmp_path: Path) -> None:
    file = tmp_path / "made"
    with pytest.raises((WorkerError, JobFailedError)):
        own.run(job(tmp_path, f"open({str(file)!r}, 'w').write('x')"), b"", 10)
    assert file.read_text() == ""


def test_a_session_keeps_its_state_and_can_ask(own: WorkerPool, tmp_path: Path) -> None:
    session = Session(job(tmp_path, "return ask(payload) + str(self.n).encode()"))
    other = Session(job(tmp_path, "return str(self.n).encode()"))
    assert [session.request(b"a", 10, bytes.upper)[0] for _ in range(3)] == [b"A1", b"A2", b"A3"]
    assert other.request(b"", 10, bytes.upper)[0] == b"1"
    assert session.generation == 1


def test_how_long_an_answer_takes_does_not_count(
    own: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process ended itself meanwhile, and nothing marked the prompt as one of a machine that was too busy."""
    monkeypatch.setattr(limits, "LEAST_WALL_SECONDS", 0.3)
    monkeypatch.setattr(workers, "_MARGIN", 0.1)
    session = Session(job(tmp_path, "return ask(payload) + ask(payload)"))

    def answer(question: bytes) -> bytes:
        select.select([], [], [], 0.5)
        return question.upper()

    assert session.request(b"a", 0.03, answer)[0] == b"AA"


def test_a_job_can_be_asked_while_it_asks(own: WorkerPool, tmp_path: Path) -> None:
    session = Session(job(tmp_path, "return ask(payload) if payload == b'outer' else b'<' + payload + b'>'"))

    def answer(question: bytes) -> bytes:
        return session.request(b"inner of " + question, 10, answer)[0]

    assert session.request(b"outer", 10, answer)[0] == b"<inner of outer>"


def test_a_session_that_ran_out_of_time_begins_anew(own: WorkerPool, tmp_path: Path) -> None:
    session = Session(job(tmp_path, "while payload == b'loop': pass\nreturn str(self.n).encode()"))
    session.request(b"", 10, bytes.upper)
    with pytest.raises(OutOfTimeError):
        session.request(b"loop", 0.05, bytes.upper)
    assert session.request(b"", 10, bytes.upper)[0] == b"1"
    assert session.generation == 2


def test_the_worker_of_a_session_is_used_again_without_its_state(own: WorkerPool, tmp_path: Path) -> None:
    counting = job(tmp_path, "import os; return f'{os.getpid()} {self.n}'.encode()")
    session = Session(counting)
    session.request(b"", 10, bytes.upper)
    first = session.request(b"", 10, bytes.upper)[0].split()
    del session
    while len(own._idle) > 1:
        own.discard(own._idle.pop(0), replace=False)
    second = Session(counting).request(b"", 10, bytes.upper)[0].split()
    assert (first[1], second) == (b"2", [first[0], b"1"])


def test_only_so_many_sessions_are_kept(own: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "MAX_SESSIONS", 2)
    counting = job(tmp_path, "return str(self.n).encode()")
    sessions = [Session(counting) for _ in range(3)]
    assert [each.request(b"", 10, bytes.upper)[0] for each in (*sessions, *sessions)] == [b"1"] * 6
    assert [each.request(b"", 10, bytes.upper)[0] for each in sessions[1:]] == [b"2", b"2"]


def test_a_session_used_after_the_pool_was_closed_is_closed_with_it_again(own: WorkerPool, tmp_path: Path) -> None:
    session = Session(job(tmp_path, "return str(self.n).encode()"))
    for _ in range(2):
        assert session.request(b"", 10, bytes.upper)[0] == b"1"
        own.close()
        assert not session.is_open


def test_warming_up_starts_what_is_kept_and_no_more(own: WorkerPool) -> None:
    warm_up()
    idle = list(own._idle)
    assert len(idle) == limits.MAX_IDLE_WORKERS
    warm_up()
    assert own._idle == idle
    find(own, "aab")
    assert set(own._idle) == set(idle)


def test_an_idle_worker_that_died_is_replaced(own: WorkerPool) -> None:
    own.warm_up()
    for worker in own._idle:
        worker._process.kill()
        worker._process.wait()
    assert find(own, "xab", everything=False) == [1, 3, 1, 2]


def test_idle_workers_end_by_themselves(own: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(limits, "IDLE_SECONDS", 0.05)
        worker = Worker()
    worker.wait_until_ready(within(60))
    worker.request(guard.JOB, payload("aab"), 10)
    assert worker._process.wait(timeout=30) != 0
    own._idle.append(worker)
    monkeypatch.setattr(Worker, "is_alive", True)  # it ends just after it was looked at
    assert find(own, "aab") == [0, 3, 0, 2]


def test_a_worker_that_ends_without_an_answer_is_reported(own: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "__file__", os.devnull)
    with pytest.raises(WorkerError, match="without an answer"):
        find(own, "aab")


def test_a_worker_that_cannot_start_is_reported(own: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    warnings: list[str] = []
    assert JSRegex.compile("(a+)+e").search("a" * 64, warn=warnings.append) is None
    assert "could not be run safely" in warnings[0]


def test_where_pipes_cannot_be_waited_for_a_timer_kills(own: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert find(own, "aab") == [0, 3, 0, 2]
    monkeypatch.setattr(limits, "LEAST_WALL_SECONDS", 0.2)
    monkeypatch.setattr(limits, "WALL_FACTOR", 0.001)
    with pytest.raises(StuckError):
        find(own, "a" * 64, 30)


def test_large_texts_and_many_matches_go_through(own: WorkerPool) -> None:
    engine = Engine.compile("(.)", "", first_group=0, group_count=1)
    assert len(own.run(guard.JOB, payload("ab" * 100_000, engine=engine), 60)) == 200_000 * 4 * 8


def test_warming_up_where_nothing_starts_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    own = WorkerPool()
    own.warm_up()
    assert len(own._idle) == 0


def test_a_forked_child_has_workers_of_its_own() -> None:
    script = """
import os, sys
from tavernkit._text.js_regex import JSRegex
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
from tavernkit._text.js_regex import JSRegex
from tavernkit._workers.pool import pool
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
import tavernkit._text.js_regex
assert threading.active_count() == 1
assert "tavernkit._workers.pool" not in sys.modules
assert "subprocess" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
