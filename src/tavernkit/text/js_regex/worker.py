"""The process in which a regex that may run away does so: it is killed when its time is up.

Started as a script, without site packages and with the fewest imports, so that starting is quick. Its arguments are
the directory that the engine is imported from, the seconds after which it ends by itself when nothing is asked, and
its memory limit. It reads requests from its standard input and writes replies to its standard output until the input
ends. A request is a header and three texts in UTF-8; a reply is a header and offsets.
"""

import os
import struct
import sys

REQUEST = struct.Struct("<IIIIIBd")
"""Sizes of source, flags and text; the first group wanted and how many; whether all matches are; seconds after which
the process ends by itself, for the case that nobody waits any more, as the parent has died."""

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


def _end_after(seconds: float) -> None:
    """Let the system end this process after so much time, where it can."""
    try:
        # Not from the public module: it makes enumerations of all signals, which is a fifth of the time to start.
        from _signal import (  # pyright: ignore[reportMissingImports]  # a built-in module without types
            ITIMER_REAL,  # pyright: ignore[reportUnknownVariableType]
            setitimer,  # pyright: ignore[reportUnknownVariableType]
        )
    except ImportError:
        return
    setitimer(ITIMER_REAL, seconds)


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
    cache: dict[tuple[bytes, bytes], Regex] = {}
    _write(REPLY.pack(READY, 0))
    while True:
        _end_after(idle_seconds)
        source_size, flags_size, text_size, first, count, everything, seconds = REQUEST.unpack(_read(REQUEST.size))
        _end_after(seconds)
        key = (_read(source_size), _read(flags_size))
        text = _read(text_size).decode()
        offsets: list[int] = []
        try:
            regex = cache.get(key)
            if regex is None:
                if len(cache) >= _CACHE_SIZE:
                    cache.clear()
                regex = cache[key] = Regex(key[0].decode(), key[1].decode())
            if everything:
                matches = list(regex.find_iter(text) or ())
            else:  # not the first of all: the engine would find them all before
                matches = [match for match in [regex.find(text)] if match is not None]
            for match in matches:
                for number in range(first, first + count):
                    span = match.group(number)
                    offsets += (-1, -1) if span is None else (span.start, span.stop)
        except RegressError:
            _write(REPLY.pack(FAILED, 0))
        else:
            _write(REPLY.pack(FOUND, len(offsets)) + struct.pack(f"<{len(offsets)}q", *offsets))


if __name__ == "__main__":
    main()
