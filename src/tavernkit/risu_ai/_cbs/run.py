"""The state of an expansion: one session per call of the engine, one run per text inside it, and their diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import is_index_key, to_string, trim, truthy
from tavernkit._values import Json, is_list, is_object
from tavernkit.risu_ai._cbs.blocks import Block
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.limits import (
    CALL_LIMIT,
    MAX_CHARACTERS,
    MAX_STEPS,
    MAX_TREE_DEPTH,
    MAX_WARNINGS,
    FunctionFailure,
    Returned,
)
from tavernkit.risu_ai._cbs.source import Origins
from tavernkit.risu_ai._js import replace_within
from tavernkit.risu_ai.errors import CBSError, CBSLimitError, CBSStackOverflowError, CBSSyntaxError

if TYPE_CHECKING:
    from tavernkit.risu_ai._cbs.engine import CBSEngine


DiagnosticKind: TypeAlias = Literal["kept", "unclosed", "limit", "failure", "more"]
"""A tag that stays in the text; an unclosed one; a limit that was hit; a text at which RisuAI's parser throws; or too
many diagnostics."""


@dataclass(frozen=True, slots=True)
class CBSDiagnostic:
    """One problem; ``position`` is an index into the original text."""

    kind: DiagnosticKind
    message: str
    position: int | None = None

    def __str__(self) -> str:
        return self.message if self.position is None else f"{self.message} (at {self.position})"


Report: TypeAlias = Callable[[CBSDiagnostic], None]
"""Receives the diagnostics of an expansion."""


@dataclass(frozen=True, slots=True)
class CBSResult:
    """An expanded text and its diagnostics."""

    text: str
    diagnostics: tuple[CBSDiagnostic, ...] = ()


CALL_LIMIT_TEXT = "ERROR: Call stack limit reached"
"""What RisuAI prints if there are too many calls."""

_QUOTED = 60
_MORE = CBSDiagnostic("more", "further warnings about this text are left out")
FORCE_RETURN = "__force_return__"
RETURN_VALUE = "__return__"


class TempVariables:
    """A map of names to values. ``element`` can replace it with any JSON value, so it may not be a map."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, Json] | None = {}

    def get(self, name: str) -> str:
        """Read a variable; one that is not set is empty."""
        value = None if self._values is None else self._values.get(name)
        return "" if value is None else to_string(value)

    def set(self, name: str, value: str | None) -> None:
        """Write a variable; None unsets it."""
        if self._values is None:
            raise FunctionFailure("the temp variables were replaced by a value that holds none")
        self._values[name] = value
        if "length" in self._values and is_index_key(name):
            length = self._values["length"]
            self._values["length"] = max(int(name) + 1, length if isinstance(length, int) else 0)

    def replace(self, value: Json) -> None:
        """Put a JSON value in place of all variables: an array is a map of its indexes, a plain value has none."""
        if is_object(value):
            self._values = dict(value)
        elif is_list(value):
            self._values = {str(index): item for index, item in enumerate(value)}
            self._values["length"] = len(value)
        else:
            self._values = None

    def check_return(self) -> None:
        """End the text when a variable says so."""
        if self._values is not None and truthy(self._values.get(FORCE_RETURN)):
            raise Returned(to_string(self._values.get(RETURN_VALUE)))


class ParseArguments:
    """RisuAI's counters, passed from one parse to the next and never reset while nested texts run."""

    __slots__ = ("calls", "context", "functions")

    def __init__(self, context: CBSContext, calls: int, functions: dict[str, str] | None = None) -> None:
        self.context = context
        self.calls = calls
        self.functions = functions


class Session:
    """One call of the engine: its diagnostics, and how much of the limits it has used."""

    __slots__ = ("_report", "_reported", "characters", "depth", "engine", "steps", "strict")

    def __init__(self, engine: CBSEngine, report: Report, *, strict: bool) -> None:
        self.engine = engine
        self.strict = strict
        self.depth = 0
        self._report = report
        self._reported: set[CBSDiagnostic] = set()
        self.steps = 0
        self.characters = 0

    def step(self, count: int) -> None:
        """Count work."""
        self.steps += count
        if self.steps > MAX_STEPS:
            raise CBSLimitError(f"the text needs more than {MAX_STEPS} steps", limit="MAX_STEPS")

    def read(self, tag: str) -> None:
        """Count a tag that is longer than ``SHORT_TAG`` before it is evaluated."""
        self.step(len(tag) >> 3)

    def produce(self, count: int) -> None:
        """Count produced characters."""
        self.characters += count
        if self.characters > MAX_CHARACTERS:
            raise CBSLimitError(f"the text makes more than {MAX_CHARACTERS} characters", limit="MAX_CHARACTERS")

    def enter(self, depth: int) -> bool:
        """Start to run a tree of that depth, if the limit allows it; ``leave()`` ends it."""
        if self.depth + depth > MAX_TREE_DEPTH:
            return False
        self.depth += depth
        return True

    def leave(self, depth: int) -> None:
        """End what ``enter()`` started."""
        self.depth -= depth

    def report(self, found: CBSDiagnostic) -> None:
        """Report a problem, without duplicates."""
        if found in self._reported or len(self._reported) > MAX_WARNINGS:
            return
        self._reported.add(found)
        self._report(found if len(self._reported) <= MAX_WARNINGS else _MORE)

    def parse(self, text: str, args: ParseArguments, outside: int | None = None) -> str:
        """Expand one text: RisuAI's parser. ``outside`` is the position of a nested text in the outer one."""
        args.calls += 1  # never decreased: RisuAI's "stack" limit counts calls in total, not their depth
        if args.calls > CALL_LIMIT:
            return self.overflow(args.calls, outside)
        run = Run(self, args, text, outside)
        try:
            return self.engine.execute(run)
        except Returned as returned:
            return returned.value

    def overflow(self, depth: int, at: int | None) -> str:
        """Report one call or nested text too many."""
        message = f"more than {CALL_LIMIT - 1} function calls or nested texts"
        if self.strict:
            raise CBSStackOverflowError(message, depth=depth, max_depth=CALL_LIMIT, position=at)
        self.report(CBSDiagnostic("limit", f"{message}: the rest print {CALL_LIMIT_TEXT!r}"))
        return CALL_LIMIT_TEXT


class Run:
    """One text being expanded."""

    __slots__ = (
        "_calls",
        "_nested",
        "_origins",
        "_outside",
        "args",
        "context",
        "following",
        "functions",
        "session",
        "temp",
        "text",
    )

    def __init__(self, session: Session, args: ParseArguments, text: str, outside: int | None) -> None:
        self.session = session
        self.args = args
        self.text = text
        self.context = args.context
        self.functions = {} if args.functions is None else args.functions
        self.temp = TempVariables()
        self.following = ""
        """The character after the text that is being inserted."""
        self._calls = args.calls
        self._nested: ParseArguments | None = None
        self._origins: Origins | None = None
        self._outside = outside

    def expand_nested(self, text: str, position: int) -> str:
        """Expand a stored text (a field, a message): it shares only the counters of this run."""
        if self._nested is None:
            context = self.context.replace(display=False) if self.context.display else self.context
            self._nested = ParseArguments(context, self._calls)
        self.session.step(1)
        return self.session.parse(text, self._nested, self.locate(position))

    def call(self, tag: str, position: int) -> str | None:
        """Call a ``#func`` function (``call::name::arguments``); None if there is none with that name."""
        args = self.args
        if args.calls > CALL_LIMIT:
            return self.session.overflow(args.calls, self.locate(position))
        # `arg::0` is the function's own name; what one argument puts in may contain the slot of a later one.
        pieces = tag.split("::")[1:]
        body = self.functions.get(pieces[0])
        if body is None:
            return None
        if "{{arg::" in body:
            for index, piece in enumerate(pieces):
                self.session.step(1 + (len(body) >> 8))
                body = replace_within(MAX_CHARACTERS, body, f"{{{{arg::{index}}}}}", piece)
        args.functions = self.functions  # later texts of this parse know them only from the first call on
        return self.session.parse(body, args, self.locate(position))

    def define(self, block: Block, body: str) -> None:
        """Store the body of a ``#func`` block."""
        self.functions[block.detail] = trim(body)

    def locate(self, position: int) -> int:
        """Convert an offset in this text to one in the engine's original text."""
        if self._outside is not None:
            return self._outside
        if self._origins is None:
            self._origins = Origins(self.text)
        return self._origins.of(position)

    def inside(self, position: int, following: str) -> tuple[int | None, str]:
        """Begin a text that is inserted at a position; return the value for ``outside()``."""
        before = self._outside, self.following
        self._outside, self.following = self.locate(position), following
        return before

    def outside(self, before: tuple[int | None, str]) -> None:
        """End what ``inside()`` started."""
        self._outside, self.following = before

    def keep(self, tag: str, reason: str, position: int) -> str:
        """Report that a tag stays in the text, and return it."""
        kept = "{{" + tag + "}}"
        quoted = kept if len(kept) <= _QUOTED else f"{kept[: _QUOTED - 3]}..."
        where = self.locate(position)
        if self.session.strict:
            raise CBSError(f"{quoted}: {reason}", position=where)
        self.session.report(CBSDiagnostic("kept", f"{quoted} is kept as text: {reason}", where))
        return kept

    def no_block(self, tag: str, position: int) -> str:
        """Keep a tag that opens no block; ``:else`` and similar tags are not reported."""
        return self.keep(tag, "no block opens like this", position) if tag.startswith("#") else f"{{{{{tag}}}}}"

    def unclosed(self, block_type: str | None, position: int) -> None:
        """Report a tag or block that the text ends in."""
        where = self.locate(position)
        message = f"the block {block_type} is not closed" if block_type else "a tag is not closed"
        if self.session.strict:
            raise CBSSyntaxError(message, position=where, block_type=block_type)
        self.session.report(CBSDiagnostic("unclosed", message, where))
