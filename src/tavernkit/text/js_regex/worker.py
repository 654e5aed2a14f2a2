"""The process in which a regex that may run away does so: it is killed when its time is up.

Started as a script, without site packages, so that starting is quick. Its arguments are the directory that the engine
is imported from, the seconds after which it ends by itself when nothing is asked, and its memory limit. It reads
requests from its standard input and writes replies to its standard output until the input ends. A request is a header
and three texts in UTF-8; a reply is a header and offsets.
"""

import os
import struct
import sys
from array import array

REQUEST = struct.Struct("<IIIIIBdd")
"""Sizes of source, flags and text; the first group wanted and how many; whether all matches are; seconds of computing
and of time that it may take."""

REPLY = struct.Struct("<BI")
"""Status and number of offsets, each a signed number of 8 bytes; -1 for a group that took no part."""

READY, FOUND, FAILED = 0, 1, 2
_CACHE_SIZE = 256


def _read(size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = os.read(0, size)
        if not part:
            sys.exit()
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def has_timers() -> bool:
    """Tell whether the system can end a process after so much computing."""
    import signal

    return hasattr(signal, "setitimer")


def _set_timers(computing: float, time: float) -> None:
    """Let the system end this process after so much computing or time; 0 is never.

    Computing is what a match is allowed: it does not run out because the machine is busy with something else. Time is
    for the case that nobody waits any more, as the parent has died.
    """
    import signal

    signal.setitimer(signal.ITIMER_PROF, computing)
    signal.setitimer(signal.ITIMER_REAL, time)


def _limit_memory(size: int) -> None:
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit, setrlimit
    except ImportError:
        return
    soft, hard = getrlimit(RLIMIT_AS)
    if soft == RLIM_INFINITY or soft > size:
        setrlimit(RLIMIT_AS, (size, hard))


def main() -> None:
    """Answer requests until there are no more."""
    engine_directory, idle_seconds, memory = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    sys.path.insert(0, engine_directory)
    from regress import Regex, RegressError

    _limit_memory(memory)
    timers = has_timers()
    cache: dict[tuple[bytes, bytes], Regex] = {}
    _write(REPLY.pack(READY, 0))
    while True:
        if timers:
            _set_timers(0, idle_seconds)
        source_size, flags_size, text_size, first, count, everything, computing, time = REQUEST.unpack(
            _read(REQUEST.size)
        )
        key = (_read(source_size), _read(flags_size))
        text = _read(text_size).decode()
        if timers:
            _set_timers(computing, time)
        offsets = array("q")
        try:
            regex = cache.get(key)
            if regex is None:
                if len(cache) >= _CACHE_SIZE:
                    cache.clear()
                regex = cache[key] = Regex(key[0].decode(), key[1].decode())
            for match in regex.find_iter(text) or ():
                for number in range(first, first + count):
                    span = match.group(number)
                    offsets.extend((-1, -1) if span is None else (span.start, span.stop))
                if not everything:
                    break
        except RegressError:
            _write(REPLY.pack(FAILED, 0))
        else:
            _write(REPLY.pack(FOUND, len(offsets)) + offsets.tobytes())


if __name__ == "__main__":
    main()
