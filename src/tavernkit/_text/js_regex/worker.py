"""The job of worker processes that search with regular expressions: a separate file, which imports only the engine.

A request is a header and three texts in UTF-8; a reply is a list of offsets, each a signed number of 8 bytes, -1 for a
group that did not participate.
"""

from __future__ import annotations

import struct

from regress import Regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = struct.Struct("<IIIIIB")
"""Sizes of source, flags and text; the first group and how many groups; whether to find all matches."""

_CACHE_SIZE = 256


class Handler:
    """Searches, and caches compiled patterns."""

    def __init__(self) -> None:
        self._cache: dict[tuple[bytes, bytes], Regex] = {}

    def handle(self, payload: bytes, ask: Callable[[bytes], bytes]) -> bytes:
        """Find the first match, or all."""
        source_size, flags_size, _, first, count, everything = REQUEST.unpack_from(payload)
        at = REQUEST.size
        source, flags = payload[at : at + source_size], payload[at + source_size : at + source_size + flags_size]
        text = payload[at + source_size + flags_size :].decode()
        regex = self._cache.get((source, flags))
        if regex is None:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            regex = self._cache[source, flags] = Regex(source.decode(), flags.decode())
        if everything:
            matches = list(regex.find_iter(text) or ())
        else:  # not the first of find_all(), which would find them all first
            matches = [match for match in [regex.find(text)] if match is not None]
        offsets: list[int] = []
        for match in matches:
            for number in range(first, first + count):
                span = match.group(number)
                offsets += (-1, -1) if span is None else (span.start, span.stop)
        return struct.pack(f"<{len(offsets)}q", *offsets)
