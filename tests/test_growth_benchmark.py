"""``make bench-growth`` works: every operation at its smallest size, and the table it prints."""

from __future__ import annotations

import pytest

from benchmarks.growth import OPERATIONS, Operation, ServiceTurn, rows


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.name}, {operation.size_of}")
def test_every_operation_can_be_done_twice(operation: Operation) -> None:
    work = operation.make(operation.sizes[0])
    work()
    work()
    if isinstance(work, ServiceTurn):
        work.close()


def test_a_row_says_what_was_measured() -> None:
    idle = Operation("nothing", "nothing", (1, 10, 100), lambda size: lambda: sum(range(size)))
    *_, row = rows((idle,))
    assert row.startswith("| nothing | nothing | 1 · 10 · 100 | ")
