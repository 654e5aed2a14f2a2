"""Many warnings of one kind are a few and a number."""

from __future__ import annotations

import pytest

from tavernkit import User
from tavernkit import silly_tavern as st
from tavernkit.cards._character import Character
from tavernkit.errors import MAX_WARNINGS, MAX_WARNINGS_OF_A_KIND, StrictModeError, WarningLog


def test_warnings_of_one_kind_are_counted_beyond_the_first() -> None:
    seen: list[str] = []
    log = WarningLog(warn=seen.append)
    for number in range(4081):
        log(f"the entry {number} of 'book {number}' has no {{{{macro{number}}}}}")
    assert len(seen) == MAX_WARNINGS_OF_A_KIND
    assert log.messages == (*seen, "3,981 more like this: the entry … of … has no …")


def test_warnings_of_many_kinds_have_a_limit_too() -> None:
    log = WarningLog()
    kinds = [f"{'a' * (number % 150 + 1)} {'b' * (number // 150 + 1)}" for number in range(MAX_WARNINGS * 2)]
    for kind in kinds:
        log(kind)
    assert list(log.messages[:MAX_WARNINGS]) == kinds[:MAX_WARNINGS]
    assert len(log.messages) == MAX_WARNINGS + MAX_WARNINGS_OF_A_KIND + 1
    assert log.messages[-1] == "900 more of other kinds"


def test_warnings_of_a_build_are_counted() -> None:
    handled: list[str] = []
    text = " ".join(f"{{{{unknown{number}}}}}" for number in range(500))
    builder = st.Builder(character=Character(name="Aria", description=text), user=User(name="Ann"), warn=handled.append)
    plan = builder.build(message="hi")
    assert len(handled) == MAX_WARNINGS_OF_A_KIND
    assert len(plan.warnings) == MAX_WARNINGS_OF_A_KIND + 1
    assert plan.warnings[-1] == "400 more like this: unknown macro … stays as text (at character …)"


def test_every_warning_raises_in_strict_mode() -> None:
    log = WarningLog(strict=True)
    for _ in range(MAX_WARNINGS_OF_A_KIND + 1):
        with pytest.raises(StrictModeError):
            log("again")
