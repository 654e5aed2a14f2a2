"""Job objects of Windows, by the calls that are made: a stand-in for the system's library notes them."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import pytest

from tavernkit._workers import OutOfTimeError, limits, windows_job
from tavernkit._workers.windows_job import (
    ACTIVE_PROCESS,
    DIE_ON_EXCEPTION,
    EXTENDED_LIMITS,
    JOB_TIME,
    KILL_ON_CLOSE,
    PROCESS_MEMORY,
    BasicLimits,
    ExtendedLimits,
    JobObject,
)
from tavernkit._workers.worker import Worker
from tests.workers.test_pool import ENGINE, guard, payload

ALWAYS = ACTIVE_PROCESS | PROCESS_MEMORY | DIE_ON_EXCEPTION | KILL_ON_CLOSE


class Kernel32:
    """Notes what is called; ``fails`` names a function that does not work."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.calls: list[tuple[Any, ...]] = []

    def CreateJobObjectW(self, security: None, name: None) -> int:
        self.calls.append(("create", security, name))
        return 0 if self.fails == "create" else 77

    def SetInformationJobObject(self, job: int, what: int, found: Any, size: int) -> int:
        given = ctypes.cast(found, ctypes.POINTER(ExtendedLimits)).contents
        assert (what, size) == (EXTENDED_LIMITS, ctypes.sizeof(ExtendedLimits))
        basic = given.basic
        self.calls.append(
            ("set", job, basic.flags, basic.active_processes, given.process_memory, basic.per_job_user_time)
        )
        return 0 if self.fails == "set" else 1

    def AssignProcessToJobObject(self, job: int, process: int) -> int:
        self.calls.append(("assign", job, process))
        return 0 if self.fails == "assign" else 1

    def CloseHandle(self, handle: int) -> int:
        self.calls.append(("close", handle))
        return 1


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Kernel32:
    """A machine that says it is a Windows."""
    made = Kernel32()
    monkeypatch.setattr(windows_job, "kernel32", lambda: made)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(subprocess.Popen, "_handle", 4711, raising=False)
    return made


def test_the_structures_are_as_large_as_those_of_windows() -> None:
    if ctypes.sizeof(ctypes.c_void_p) == 8:
        assert (ctypes.sizeof(BasicLimits), ctypes.sizeof(ExtendedLimits)) == (64, 144)
        assert (ExtendedLimits.process_memory.offset, BasicLimits.flags.offset) == (112, 16)


def test_a_worker_is_in_a_job_object_of_its_own(library: Kernel32) -> None:
    worker = Worker()
    assert library.calls == [
        ("create", None, None),
        ("set", 77, ALWAYS, 1, limits.MEMORY, 0),
        ("assign", 77, 4711),
    ]
    worker.stop()
    assert library.calls[-1] == ("close", 77)


def test_each_request_has_its_own_processor_time(library: Kernel32) -> None:
    worker = Worker()
    worker.wait_until_ready(10**9)
    library.calls.clear()
    for _ in range(2):
        worker.request(guard.JOB, payload("aab", engine=ENGINE), 2.5)
    limited, free = (
        ("set", 77, ALWAYS | JOB_TIME, 1, limits.MEMORY, 25_000_000),
        ("set", 77, ALWAYS, 1, limits.MEMORY, 0),
    )
    assert library.calls == [limited, free, limited, free]
    worker.stop()


def test_a_process_that_the_system_ended_for_its_time_ran_out_of_it(
    library: Kernel32, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker()
    worker.wait_until_ready(10**9)
    worker.kill()
    worker._process.wait()
    monkeypatch.setattr(worker, "_ended_by", lambda: 1816)
    with pytest.raises(OutOfTimeError, match=r"longer than 2\.5 seconds"):
        worker.request(guard.JOB, payload("aab", engine=ENGINE), 2.5)
    worker.stop()


@pytest.mark.parametrize("fails", ["create", "set", "assign"])
def test_where_there_are_none_workers_work_without(library: Kernel32, fails: str) -> None:
    library.fails = fails
    worker = Worker()
    worker.wait_until_ready(10**9)
    assert worker.request(guard.JOB, payload("aab", engine=ENGINE), 2.5)
    worker.stop()
    assert [call for call in library.calls if call[0] == "close"] == ([] if fails == "create" else [("close", 77)])


def test_other_systems_have_none() -> None:
    if sys.platform != "win32":
        assert windows_job.kernel32() is None
        job = JobObject(1, 1)
        job.limit_time(1)
        job.close()
