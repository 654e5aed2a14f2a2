"""All places where one text occurs in another."""

from __future__ import annotations

from collections.abc import Iterator


def occurrences(text: str, wanted: str, start: int = 0) -> Iterator[int]:
    """Yield the offset of every occurrence, including overlapping ones, in linear time.

    A search begins again only where the next occurrence is at least half of ``wanted`` away. Closer ones are one period
    of ``wanted`` apart (Fine and Wilf), and then only the period is compared.
    """
    length = len(wanted)
    period = wanted.find(wanted[: length - length // 2], 1)
    if period > 0 and not wanted.startswith(wanted[period:]):
        period = -1
    last_period = wanted[length - period :]
    at = text.find(wanted, start)
    while at >= 0:
        yield at
        if period > 0 and text.startswith(last_period, at + length):
            at += period
        else:
            at = text.find(wanted, at + 1)
