"""Load hooks."""

from __future__ import annotations

import pytest

from tavernkit.text.load_hooks import LoadHooks


def test_hooks_run_named_first_and_late_ones_at_once() -> None:
    hooks, seen = LoadHooks(), list[object]()
    hooks.on_load("scope", lambda payload: seen.append(("anonymous", payload)))
    hooks.on_load("scope", lambda payload: seen.append(("old", payload)), id="one")
    hooks.on_load("scope", lambda payload: seen.append(("named", payload)), id="one")
    hooks.on_load("other", lambda payload: seen.append(("other", payload)))
    hooks.run("scope", 1)
    assert seen == [("named", 1), ("anonymous", 1)]
    hooks.on_load("scope", lambda payload: seen.append(("late", payload)))
    assert seen[-1] == ("late", 1)
    hooks.run("scope", 2)
    assert seen[3:] == [("named", 2), ("anonymous", 2), ("late", 2)]


def test_nothing_as_payload_means_not_yet() -> None:
    hooks, seen = LoadHooks(), list[object]()
    hooks.run("scope", None)
    hooks.on_load("scope", seen.append)
    assert seen == []


def test_a_hook_may_register_another_and_its_errors_are_passed_on() -> None:
    hooks, seen = LoadHooks(), list[object]()

    def fail(_payload: object) -> None:
        raise RuntimeError("broken hook")

    hooks.on_load("scope", lambda payload: hooks.on_load("scope", seen.append))
    hooks.run("scope", 1)
    assert seen == [1]
    hooks.on_load("bad", fail)
    with pytest.raises(RuntimeError, match="broken hook"):
        hooks.run("bad", 1)


def test_reset_forgets() -> None:
    hooks, seen = LoadHooks(), list[object]()
    hooks.on_load("a", seen.append)
    hooks.on_load("b", seen.append)
    hooks.reset("a")
    hooks.run("a", 1)
    hooks.run("b", 2)
    assert seen == [2]
    hooks.reset()
    hooks.run("b", 3)
    assert seen == [2]
