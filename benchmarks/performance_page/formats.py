"""Numbers and rows of tables as the page shows them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

DASH = "–"


def number(value: float) -> str:
    """Show two digits below ten, and no more than three above: 0.46, 6.8, 34, 483, 1,040."""
    if value < 9.95:
        return f"{value:.2g}" if value >= 0.0001 else "0"
    return f"{_rounded(value, 3):,.0f}"


def milliseconds(value: float | None) -> str:
    return DASH if value is None else f"{number(value)} ms"


def seconds(value: float | None) -> str:
    return DASH if value is None else f"{value / 1000:.2f} s"


def megabytes(value: float) -> str:
    return f"{value:.0f} MB"


def multiples(values: Iterable[float]) -> str:
    """Show the least and the largest: ``1.2`` or ``1.2–1.4``."""
    least, most = (f"{each:.1f}" for each in _ends(values))
    return least if least == most else f"{least}–{most}"


def table(columns: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    Args:
        columns: The names of the columns, with ``|`` between them; ``>`` before a name aligns it to the right.
        rows: The cells.
    """
    names = [name.strip() for name in columns.split("|")]
    head = " | ".join(name.removeprefix(">") for name in names)
    line = "|".join("---:" if name.startswith(">") else "---" for name in names)
    return "\n".join([f"| {head} |", f"|{line}|", *(f"| {' | '.join(row)} |" for row in rows)]).replace("|  |", "| |")


def growth_row(figures: Mapping[str, Any]) -> list[str]:
    """Return the cells of an operation that was measured at three sizes."""
    sizes, times = figures["sizes"], [max(each, 0.001) for each in figures["processor_ms"]]
    exponent = math.log(times[2] / times[1]) / math.log(sizes[2] / sizes[1])
    return [
        figures["name"],
        figures["size_of"],
        " · ".join(f"{size:,}" for size in sizes),
        " · ".join(f"{each:.3g}" for each in times),
        f"{max(exponent, 0):.1f}",
    ]


def _rounded(value: float, digits: int) -> float:
    return round(value, digits - 1 - math.floor(math.log10(value)))


def _ends(values: Iterable[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[0], ordered[-1]
