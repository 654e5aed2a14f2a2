"""The progress of long runs: a bar on a terminal, lines of JSON elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

if TYPE_CHECKING:
    from tavernkit.batching import BatchProgress

T = TypeVar("T")

SECONDS_BETWEEN_LINES: Final = 10.0
SHOWN_FROM = 8
"""With fewer items, no bar is shown."""


class ProgressLines:
    """Writes one line of JSON every few seconds."""

    def __init__(
        self, stream: TextIO, *, every: float = SECONDS_BETWEEN_LINES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start counting.

        Args:
            stream: Where lines go.
            every: Seconds between lines, and before the first one.
            clock: Returns seconds.
        """
        self._stream = stream
        self._every = every
        self._clock = clock
        self._next = clock() + every

    def __call__(self, now: BatchProgress) -> None:
        """Write a line if it is time."""
        if self._clock() < self._next:
            return
        self._next = self._clock() + self._every
        left = now.seconds_left
        state = {
            "done": now.done,
            "total": now.total,
            "failed": now.failed,
            "per_second": round(now.rate, 1),
            "seconds_left": None if left is None else round(left),
        }
        self._stream.write(json.dumps(state) + "\n")
        self._stream.flush()


def track(things: Sequence[T], what: str) -> Iterator[T]:
    """Iterate over items and show progress on a terminal.

    Args:
        things: The items.
        what: What is done with them.
    """
    from rich.progress import track

    from tavernkit.cli.terminal import console

    screen = console(stderr=True)
    if len(things) < SHOWN_FROM or not screen.is_terminal:
        return iter(things)
    return iter(track(things, description=what, console=screen, transient=True))


@contextmanager
def show_progress() -> Generator[Callable[[BatchProgress], None]]:
    """Show progress with rate and time left on stderr, without changing the command's output."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from tavernkit.cli.terminal import console

    screen = console(stderr=True)
    if not screen.is_terminal:
        yield ProgressLines(sys.stderr)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda now: bar.update(task, total=now.total, completed=now.done, description=_in_words(now))


def _in_words(now: BatchProgress) -> str:
    left = now.seconds_left
    failed = f" · {now.failed} failed" if now.failed else ""
    return f"{now.rate:.1f}/s · {'' if left is None else time.strftime('%H:%M:%S', time.gmtime(left))} left{failed}"
