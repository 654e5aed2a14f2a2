"""The Liquid environment: its limits, its error handling, and the chat's variables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import StringIO
from typing import ClassVar, TextIO

from liquid import (
    BoundTemplate,
    Environment,
    Node,
    RenderContext,
    StrictUndefined,
    Tag,
    Token,
    TokenStream,
    Undefined,
)
from liquid.builtin.expressions import StringLiteral
from liquid.builtin.output import Output, OutputNode
from liquid.builtin.tags.capture_tag import CaptureNode, CaptureTag
from liquid.builtin.tags.echo_tag import EchoTag
from liquid.builtin.tags.for_tag import ForLoop
from liquid.exceptions import (
    FilterArgumentError,
    LiquidError,
    LiquidInterrupt,
    LocalNamespaceLimitError,
    LoopIterationLimitError,
    OutputStreamLimitError,
    ResourceLimitError,
    TemplateNotFoundError,
)
from liquid.output import LimitedStringIO
from liquid.token import TOKEN_CONTENT, TOKEN_EXPRESSION, TOKEN_OUTPUT

from tavernkit._dataclass import dataclass
from tavernkit._text.strict_json import byte_length
from tavernkit._text.traced import Traced, expanded, join
from tavernkit._values import is_mapping, is_sequence
from tavernkit.stores._variables import VariablesStore
from tavernkit.vibe_tavern._limits import MAX_LIQUID_BYTES, MAX_LIQUID_STEPS
from tavernkit.vibe_tavern._liquid_macros.lax import lax_tokens
from tavernkit.vibe_tavern._liquid_macros.values import read_operands, to_text

_STEP_SIZE = 256
"""Size of the values of a filter or comparison that counts as one step."""

_ELEMENT_SIZE = 128
"""The cost of visiting an element of a list, besides its size."""

_LONG_NUMBER_BITS = 1024
"""Larger numbers count by their bits, because calculating with them takes longer."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a template can access: the chat's variables, the run context, the clock."""

    variables: VariablesStore | None
    context: Mapping[str, object]
    now_ms: Callable[[], int]


class MacroContext(RenderContext):
    """A render context that counts the work of a template and stops it at the limits."""

    __slots__ = ("_assigned", "_steps", "printed_errors", "run")

    run: Run
    printed_errors: dict[str, None]
    """The printed errors, in order, without duplicates."""

    def __init__(self, template: BoundTemplate, **arguments: object) -> None:
        super().__init__(template, **arguments)  # pyright: ignore[reportArgumentType]  # the base class has them typed
        self._assigned = 0
        self._steps = 0
        self.printed_errors = {}

    def assign(self, key: str, val: object) -> None:
        """Bind a name, counting the size of the value."""
        self.charge(val)
        super().assign(key, val)

    def charge(self, value: object) -> None:
        """Count the size of a stored value."""
        self._assigned += _size(value)
        if self._assigned > MAX_LIQUID_BYTES:
            raise LocalNamespaceLimitError("memory limits exceeded", token=None)

    def filter(self, name: str, token: Token | None) -> Callable[..., object]:
        """Find a filter; it refuses inputs and results that are too large."""
        function = super().filter(name, token)

        def bounded(*operands: object, **named: object) -> object:
            read = read_operands(name, operands)
            work = _work(name, read)
            if work > MAX_LIQUID_BYTES:
                raise LocalNamespaceLimitError("memory limits exceeded", token=token)
            self.work(work + _ELEMENT_SIZE * sum(map(_elements, read)))
            try:
                result = function(*read, **named)
            except (TypeError, FilterArgumentError) as error:
                raise _argument_count_error(function, len(operands), token) or error from error
            if _size(result) > MAX_LIQUID_BYTES:
                raise LocalNamespaceLimitError("memory limits exceeded", token=token)
            self.work(_ELEMENT_SIZE * _elements(result))
            return result

        return bounded

    def get_item(self, obj: object, key: object) -> object:
        """Read a property: names of chat variables have no special meaning, and list indexes must exist."""
        if isinstance(obj, VariablesDrop):
            try:
                return obj[key]
            except KeyError:
                if isinstance(self.env, MacroEnvironment) and self.env.raising:
                    # Unlike an undefined name, this is an error everywhere, including conditions.
                    raise UndefinedDropMethodError(f"no variable {to_text(key)!r} is set", token=None) from None
                raise
        if isinstance(key, int) and is_sequence(obj) and not -len(obj) <= key < len(obj):
            return None
        return super().get_item(obj, key)

    def get_buffer(self, buf: TextIO | None = None) -> StringIO:
        """Return a new output stream that continues the count of another and keeps line ends."""
        used = buf.size if isinstance(buf, LimitedStringIO) else 0
        return TracedOutput(buf.template, used) if isinstance(buf, TracedOutput) else output_buffer(used)

    def work(self, size: int) -> None:
        """Count the work on a value of this many bytes or elements."""
        self.step(size // _STEP_SIZE)

    def step(self, count: int = 1) -> None:
        """Count one rendered node, or work that takes as long as several."""
        self._steps += count
        if self._steps > MAX_LIQUID_STEPS:
            raise LoopIterationLimitError("memory limits exceeded", token=None)


class UndefinedDropMethodError(LiquidError):
    """A variable of the chat is not set, in a raising environment."""


class VariablesDrop(Mapping[str, object]):
    """One scope of the chat's variables, read by name from a template."""

    def __init__(self, store: VariablesStore | None, scope: str) -> None:
        self._store = store
        self._scope = scope

    def __getitem__(self, key: object) -> object:
        name = to_text(key)
        if self._store is None or not self._store.has(name, self._scope):
            raise KeyError(name)
        return self._store.get(name, self._scope)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class GuardedNode(Node):
    """Counts a node; in a tolerant environment, prints its error instead of its output."""

    __slots__ = ("inner",)

    def __init__(self, inner: Node) -> None:
        super().__init__(inner.token)
        self.inner = inner
        self.blank = inner.blank

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        """Render the node inside."""
        assert isinstance(context, MacroContext)
        context.step()
        outer = None
        if isinstance(buffer, TracedOutput):
            outer, buffer.token = buffer.token, self.inner.token
        try:
            return self.inner.render(context, buffer)
        except ResourceLimitError:
            raise
        except (LiquidError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            if isinstance(context.env, MacroEnvironment) and context.env.raising:
                raise
            context.printed_errors[f"line {self._line()}: {error_detail(error)}"] = None
            return buffer.write(f"Liquid error: {error_message(error)}")
        finally:
            if isinstance(buffer, TracedOutput):
                buffer.token = outer

    def _line(self) -> int:
        return self.token.source.count("\n", 0, max(self.token.start_index, 0)) + 1


class BoundedOutput(LimitedStringIO):
    """An output stream with a limit in bytes, which may contain half characters."""

    def write(self, text: str, /) -> int:
        """Write a text."""
        self.size += byte_length(text)
        if self.size > self.limit:
            raise OutputStreamLimitError("output stream limit reached", token=None)
        return StringIO.write(self, text)


class TracedOutput(BoundedOutput):
    """An output stream for a traced template: its text knows which part of the template, or which value, wrote it."""

    def __init__(self, template: str, used: int = 0) -> None:
        super().__init__(limit=MAX_LIQUID_BYTES - used, newline="")
        self.template = template
        self.token: Token | None = None
        """The node that writes."""
        self._parts: list[str] = []

    def write(self, text: str, /) -> int:
        """Write a text."""
        self._parts.append(self._traced(text))
        return super().write(text)

    def getvalue(self) -> str:
        """Return everything that was written."""
        return join("", self._parts)

    def _traced(self, text: str) -> str:
        token = self.token
        if token is None or not text:
            return text
        start = max(token.start_index, 0)
        if token.kind == TOKEN_CONTENT:
            at = self.template.find(text, start)  # white space at its start may have been removed
            return text if at < 0 else self.template[at : at + len(text)]
        if token.kind == TOKEN_OUTPUT:
            named = _NAME.search(token.value)
            return expanded(text, named[0] if named else "", self.template[start : start + len(token.value)])
        opening, closing = self.template.rfind("{%", 0, start), self.template.find("%}", start)
        # What a block wrote into its own stream is already traced.
        if isinstance(text, Traced) and token.value != "echo":
            return text
        return expanded(text, token.value, self.template[max(opening, 0) : closing + 2 if closing >= 0 else None])


_NAME = re.compile(r"[\w.-]*\w")
"""The value that an output starts with."""


class GuardedTag(Tag):
    """Parses with another tag and guards its node."""

    def __init__(self, inner: Tag) -> None:
        super().__init__(inner.env)
        self._inner = inner
        self.name = inner.name
        self.block = inner.block
        self.end = inner.end

    def parse(self, stream: TokenStream) -> Node:
        """Parse with the tag inside."""
        return GuardedNode(self._inner.parse(stream))


class MacroOutputNode(OutputNode):
    """Prints a value the way Liquid does in every language."""

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        """Write the value of the expression."""
        value = self.expression.evaluate(context)
        return buffer.write(str(value) if isinstance(value, (Undefined, ForLoop)) else to_text(value))


class MacroOutput(Output):
    """``{{ … }}``; with nothing inside it prints nothing."""

    node_class = MacroOutputNode

    def parse(self, stream: TokenStream) -> OutputNode:
        """Parse the expression."""
        token, expression = stream.current, stream.peek
        if expression.kind == TOKEN_EXPRESSION and not expression.value.strip():
            stream.next()
            return self.node_class(token, StringLiteral(token, ""))
        return super().parse(stream)


class MacroEcho(EchoTag):
    """``{% echo … %}``."""

    node_class = MacroOutputNode


class MacroCaptureNode(CaptureNode):
    """Keeps captured text even if it is blank; only control flow drops blank blocks."""

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        """Render the block into the variable."""
        captured = context.get_buffer(buffer)
        for node in self.block.nodes:
            node.render(context, captured)
        context.assign(self.name, captured.getvalue())
        return 0


class MacroCapture(CaptureTag):
    """``{% capture … %}``."""

    node_class = MacroCaptureNode


class MacroEnvironment(Environment):
    """Liquid with our tags, filters and limits.

    A raising environment stops at the first error; otherwise run-time errors are printed in place, and missing values
    are blank.
    """

    output_stream_limit: ClassVar[int | None] = MAX_LIQUID_BYTES
    loop_iteration_limit: ClassVar[int | None] = MAX_LIQUID_STEPS

    def __init__(self, *, raising: bool) -> None:
        self.raising = raising
        super().__init__(undefined=StrictUndefined if raising else Undefined, strict_filters=raising)

    def tokenizer(self) -> Callable[[str], Iterator[Token]]:
        """Split a template into tokens; malformed expressions are rewritten."""
        split = super().tokenizer()
        return lambda source: lax_tokens(self, split(source))

    def setup_tags_and_filters(self, *, extra: bool = False) -> None:
        """Add our tags and filters to the standard ones, and guard every tag."""
        from tavernkit.vibe_tavern._liquid_macros.filters import FILTERS
        from tavernkit.vibe_tavern._liquid_macros.tags import (
            MacroAssign,
            MacroFor,
            MacroIf,
            MacroTablerow,
            MacroUnless,
            write_tags,
        )

        super().setup_tags_and_filters(extra=extra)
        standard = (MacroOutput, MacroEcho, MacroCapture, MacroIf, MacroUnless, MacroFor, MacroTablerow, MacroAssign)
        for tag in (*standard, *write_tags()):
            self.add_tag(tag)
        for name, function in FILTERS.items():
            self.add_filter(name, function)
        self.tags = {name: GuardedTag(tag) for name, tag in self.tags.items()}


def _argument_count_error(
    function: Callable[..., object], given: int, token: Token | None
) -> FilterArgumentError | None:
    """Return an error message if a filter got the wrong number of arguments, including its input."""
    positional = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    least, most = sum(each.default is each.empty for each in positional), len(positional)
    if least <= given <= most:
        return None
    expected = str(least) if least == most else f"{least}..{most}"
    return FilterArgumentError(f"wrong number of arguments (given {given}, expected {expected})", token=token)


def render_template(template: BoundTemplate, context: MacroContext, buffer: TextIO) -> None:
    """Render a template; ``break`` and ``continue`` outside of loops end it."""
    for node in template.nodes:
        try:
            node.render(context, buffer)
        except LiquidInterrupt:
            return


def output_buffer(used: int = 0) -> BoundedOutput:
    """Make an output stream with what is left of the limit. Without ``newline`` it would rewrite line ends."""
    return BoundedOutput(limit=MAX_LIQUID_BYTES - used, newline="")


def error_message(error: BaseException) -> str:
    """Return the text that a template prints for an error, without internals of the engine."""
    return error_detail(error) if isinstance(error, LiquidError) else "internal"


def error_detail(error: BaseException) -> str:
    """Return the error message, without the excerpt of the template that Liquid adds."""
    if isinstance(error, TemplateNotFoundError):
        return "This liquid context does not allow includes."
    return str(error.message if isinstance(error, LiquidError) else error)


def _work(name: str, operands: Sequence[object]) -> int:
    """Return the maximum size of a filter's result, before it is computed."""
    sizes = [_size(operand) for operand in operands]
    if name == "replace" and len(operands) == 3 and isinstance(operands[0], str):
        return sizes[0] + operands[0].count(to_text(operands[1])) * sizes[2]
    if name == "join" and len(operands) > 1:
        return sizes[0] + _count(operands[0]) * sizes[1]
    return max(sizes, default=0)


def _elements(value: object) -> int:
    return len(value) if is_sequence(value) else 0


def _count(value: object) -> int:
    """Return the number of elements of a list, including nested lists."""
    if isinstance(value, range):
        return len(value)
    return sum(map(_count, value)) if is_sequence(value) else 1


def _size(value: object) -> int:
    if isinstance(value, range):
        return len(value)
    if isinstance(value, str):
        return byte_length(value)
    if isinstance(value, int):
        bits = value.bit_length()
        return bits if bits > _LONG_NUMBER_BITS else 1 + bits // 8
    if is_sequence(value):
        return 1 + sum(_size(item) for item in value)
    if is_mapping(value) and not isinstance(value, Undefined):
        return 1 + sum(_size(key) + _size(item) for key, item in value.items())
    return 1
