"""The limits of worker processes on Windows: each process is in its own job object.

As on other systems, the operating system enforces them: memory, user-mode processor time, no child processes, and the
process ends with ours. There is no limit on the size of files.
"""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

JOB_TIME, ACTIVE_PROCESS, PROCESS_MEMORY, DIE_ON_EXCEPTION, KILL_ON_CLOSE = 0x4, 0x8, 0x100, 0x400, 0x2000
"""Which limits are set: Windows' flags ``JOB_OBJECT_LIMIT_…``."""

EXTENDED_LIMITS = 9
"""The information class of ``ExtendedLimits`` (JobObjectExtendedLimitInformation)."""

TICKS = 10_000_000
"""Windows counts time in units of 100 nanoseconds."""


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_: ClassVar = [
        ("per_process_user_time", ctypes.c_int64),
        ("per_job_user_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("minimum_working_set", ctypes.c_size_t),
        ("maximum_working_set", ctypes.c_size_t),
        ("active_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_class", ctypes.c_uint32),
        ("scheduling_class", ctypes.c_uint32),
    ]


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_: ClassVar = [
        ("basic", BasicLimits),
        ("io_counters", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    ]


def kernel32() -> Any:  # ctypes has no types for the functions of a library
    """Return the system's library; None on other systems."""
    load = getattr(ctypes, "WinDLL", None)
    if load is None:
        return None
    library = load("kernel32", use_last_error=True)
    library.CreateJobObjectW.restype = ctypes.c_void_p
    library.CreateJobObjectW.argtypes = [ctypes.c_void_p, ctypes.c_wchar_p]
    library.SetInformationJobObject.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32]
    library.AssignProcessToJobObject.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.CloseHandle.argtypes = [ctypes.c_void_p]
    return library


class JobObject:
    """The job object of one process. If the system cannot make one, only the clock limits the process."""

    def __init__(self, process: int, memory: int) -> None:
        """Put a process into a job object.

        Args:
            process: Its handle.
            memory: Bytes that it may have.
        """
        self._library: Any = kernel32()
        self._memory = memory
        self._handle: int | None = None
        if self._library is not None:
            self._handle = self._library.CreateJobObjectW(None, None)
        if self._handle and not (self._set() and self._take(process)):
            self.close()

    def limit_time(self, seconds: float | None) -> None:
        """Allow the process this much more processor time, or any amount; time used before does not count."""
        if self._handle:
            self._set(seconds)

    def close(self) -> None:
        """Close the job object, which ends a process that is still in it."""
        if self._handle:
            self._library.CloseHandle(self._handle)
        self._handle = None

    def _take(self, process: int) -> bool:
        return bool(self._library.AssignProcessToJobObject(self._handle, process))

    def _set(self, seconds: float | None = None) -> bool:
        limits = ExtendedLimits()
        limits.basic.flags = ACTIVE_PROCESS | PROCESS_MEMORY | DIE_ON_EXCEPTION | KILL_ON_CLOSE
        limits.basic.active_processes = 1
        limits.process_memory = self._memory
        if seconds is not None:
            limits.basic.flags |= JOB_TIME
            limits.basic.per_job_user_time = max(int(seconds * TICKS), 1)
        size = ctypes.sizeof(limits)
        return bool(self._library.SetInformationJobObject(self._handle, EXTENDED_LIMITS, ctypes.byref(limits), size))
