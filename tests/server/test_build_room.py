"""Where builds run."""

from __future__ import annotations

import threading

import pytest

from tavernkit.server import build_room
from tavernkit.server.build_room import BuildRoom


async def test_a_build_of_unknown_length_runs_in_a_thread_and_a_short_one_at_once() -> None:
    room = BuildRoom()
    try:
        first = await room.run("aria", threading.get_ident)
        again = await room.run("aria", threading.get_ident)
        other = await room.run("another kind", threading.get_ident)
    finally:
        room.close()
    here = threading.get_ident()
    assert [first == here, again == here, other == here] == [False, True, False]


async def test_a_build_that_was_long_runs_in_a_thread_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_room, "SHORT_BUILD_SECONDS", -1.0)
    room = BuildRoom()
    try:
        threads = [await room.run("aria", threading.get_ident) for _ in range(3)]
    finally:
        room.close()
    assert threading.get_ident() not in threads


async def test_a_build_that_fails_says_why_and_is_timed_all_the_same() -> None:
    def fail() -> None:
        raise ValueError(f"on {threading.get_ident()}")

    room = BuildRoom()
    try:
        with pytest.raises(ValueError, match="on "):
            await room.run("aria", fail)
        with pytest.raises(ValueError, match=f"on {threading.get_ident()}"):
            await room.run("aria", fail)
    finally:
        room.close()
