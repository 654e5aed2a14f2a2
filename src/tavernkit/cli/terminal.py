"""Output: text for people, JSON for programs, the progress of long runs, warnings and errors on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tavernkit._values import visible
from tavernkit.cli.process import COMPLAINTS_AS_JSON

if TYPE_CHECKING:
    from tavernkit.batching import BatchProgress

T = TypeVar("T")

SCHEMA_VERSION = 1
"""Increases when the JSON of a command changes incompatibly; documented with the command line."""

PIPE_WIDTH = 120
"""Columns of tables outside a terminal: the same on every machine."""

SECONDS_BETWEEN_LINES: Final = 10.0
"""Seconds between lines of progress outside a terminal."""

SHOWN_FROM = 8
"""With fewer items, no bar is shown."""

_JSON_CONTROLS = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class _SafeConsole(Console):
    """Escapes control characters in all output: only rich itself may control the terminal.

    Texts are escaped before layout; this catches texts that were missed, at the cost of their layout.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text == visible(segment.text):
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


def console(*, stderr: bool = False) -> Console:
    """Return a console for the current stream. Without a terminal, it uses no colour and a fixed width."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH
    return _SafeConsole(file=stream, width=width, highlight=False, markup=False, emoji=False)


def show(*parts: RenderableType) -> None:
    """Print to stdout; plain text is never parsed as markup."""
    out = console()
    for part in parts:
        out.print(Text(visible(part)) if isinstance(part, str) else part)


def show_text(text: str) -> None:
    """Print a text that may be the input of another program, unchanged and without wrapping."""
    stream = sys.stdout
    stream.write(visible(text) if stream.isatty() else text.encode("utf-8", "replace").decode())
    stream.write("\n")


def show_piece(text: str) -> None:
    """Print a piece of a text at once, without a line end and without wrapping."""
    sys.stdout.write(visible(text))
    sys.stdout.flush()


def show_line(text: str) -> None:
    """Print a line for people at once, without wrapping."""
    show_piece(f"{text}\n")


def show_json(value: object) -> None:
    """Print JSON to stdout."""
    sys.stdout.write(_json(value, sys.stdout, indent=2) + "\n")


def show_report(report: Mapping[str, object]) -> None:
    """Print what a command found as JSON, with the version of its schema."""
    show_json({"schema_version": SCHEMA_VERSION, **report})


def _json(value: object, stream: TextIO, *, indent: int | None = None) -> str:
    """Return JSON that every reader of the stream can parse, and that cannot control a terminal."""
    unicode = (stream.encoding or "utf-8").lower().startswith("utf")
    return visible_json(json.dumps(value, ensure_ascii=not unicode, indent=indent))


def visible_json(text: str) -> str:
    """Escape the control characters in a JSON text: it means the same and cannot control a terminal."""
    return _JSON_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def complain(message: str, *, kind: str = "warning") -> None:
    """Print one line to stderr: for people, or as a JSON object for programs."""
    message = " ".join(line.strip() for line in message.splitlines())
    if COMPLAINTS_AS_JSON.get():
        sys.stderr.write(_json({"kind": kind, "message": message}, sys.stderr) + "\n")
        return
    style = {"error": "bold red", "warning": "yellow"}.get(kind, "dim")
    line = Text.assemble((f"{kind}: ", style), visible(message))
    console(stderr=True).print(line, soft_wrap=True)


def table(*columns: str, rows: Iterable[Iterable[str | Text]], title: str | None = None) -> Table:
    """Return a plain table. A column that starts with ``>`` is right-aligned."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        right = column.startswith(">")
        made.add_column(
            column.removeprefix(">"),
            justify="right" if right else "left",
            no_wrap=right,
            header_style="dim",
            overflow="fold",
        )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(visible(cell)) for cell in row))
    return made


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
    from rich import progress

    screen = console(stderr=True)
    if len(things) < SHOWN_FROM or not screen.is_terminal:
        return iter(things)
    return iter(progress.track(things, description=what, console=screen, transient=True))


@contextmanager
def show_progress() -> Generator[Callable[[BatchProgress], None]]:
    """Show progress with rate and time left on stderr, without changing the command's output."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

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
