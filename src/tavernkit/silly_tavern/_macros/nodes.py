"""The nodes of a compiled text, and their evaluation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import expanded, join
from tavernkit._values import LazySequence
from tavernkit.errors import MacroError, StrictModeError
from tavernkit.silly_tavern._macros.call import (
    Diagnostic,
    DiagnosticKind,
    MacroCall,
    OutOfRoomError,
    arity_problem,
    dedent,
    to_text,
    type_problem,
)
from tavernkit.silly_tavern._macros.registry import MacroDefinition

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.document import Document
    from tavernkit.silly_tavern._macros.run import DynamicMacro, Run
    from tavernkit.silly_tavern._macros.source import Source

Steps: TypeAlias = "Generator[tuple[Document, int | None], str, str]"
"""A generator that yields documents to evaluate (with a new base of offsets, or None) and receives their texts."""

ControlFlow: TypeAlias = "Callable[[MacroNode, Run], Steps]"
"""Evaluates a macro that decides which of its arguments are evaluated."""


class Part:
    """An argument or a block: plain text, or a document to evaluate. Its text is sliced on demand."""

    __slots__ = ("_text", "document")

    def __init__(self, text: str | None, document: Document | None = None) -> None:
        self._text = text
        self.document = document

    @property
    def text(self) -> str:
        """The text as written."""
        if self._text is None:
            return "" if self.document is None else self.document.text
        return self._text

    @property
    def empty(self) -> bool:
        """True if there is nothing in it as written."""
        return self.document is None and not self._text


@dataclass(slots=True)
class StrayTag:
    """A tag that stays in the text: an unmatched closing tag, or an opening one that cannot have a block."""

    source: str
    name: str
    position: int
    closing: bool

    def value(self, run: Run) -> str:
        """Report it and return its text."""
        what = "closes nothing" if self.closing else "cannot have a block"
        run.report(
            Diagnostic(
                kind="block",
                message=f"{self.source:.80} {what} and stays as text",
                about="closing" if self.closing else "opening",
                macro=self.name,
                position=self.position,
            )
        )
        return self.source


class MacroNode:
    """A call of a macro.

    ``frame`` is the call as written, split at its arguments; ``target`` the registered name and definition; ``span``
    its position in the source, including its block.
    """

    __slots__ = ("args", "content", "flags", "frame", "key", "name", "offset", "position", "simple", "span", "target")

    def __init__(
        self,
        *,
        span: tuple[Source, int, int],
        name: str,
        flags: str,
        target: tuple[str, MacroDefinition] | None,
        args: tuple[Part, ...],
        frame: tuple[str, ...],
        content: Part | None,
        offset: int,
        position: int,
    ) -> None:
        self.span = span
        self.name = name
        self.key = name.lower()
        self.flags = flags
        self.target = target
        self.args = args
        self.frame = frame
        self.content = content
        self.offset = offset
        self.position = position
        control = target is not None and target[1].control is not None
        self.simple = not control and all(part.document is None for part in (*args, *((content,) if content else ())))

    @property
    def source(self) -> str:
        """The whole call as written, with its block."""
        source, start, end = self.span
        return source.text[start:end]

    @property
    def scoped(self) -> bool:
        """True if it has a block."""
        return self.content is not None

    def value(self, run: Run) -> str:
        """Evaluate a call without documents to evaluate."""
        args = [part.text for part in self.args]
        if self.content is not None:
            args.append(self._block(self.content.text))
        return self._call(run, self._find(run), args)

    def steps(self, run: Run) -> Steps:
        """Evaluate the arguments, then the call."""
        # Only the registered definition decides about delay: a dynamic macro called `if` gets its arguments unexpanded.
        target = self.target
        delayed = target is not None and target[1].delayed
        args = self._written_args() if delayed else (yield from self._evaluated_args())
        if run.dynamic is not None:
            target = self._find(run)
        if target is None or target[1].control is None:
            return self._call(run, target, args)
        if not self._may_run(run, target[0], target[1], args):
            return self.keep(args)
        try:
            text = yield from target[1].control(self, run)
        except OutOfRoomError:
            return self.source
        return self._deliver(run, text, args)

    def _evaluated_args(self) -> Generator[tuple[Document, int | None], str, Sequence[str]]:
        args: list[str] = []
        for part in self.args:
            text = part.text if part.document is None else (yield part.document, None)
            args.append(text)
        content = self.content
        if content is not None:
            args.append(self._block(content.text if content.document is None else (yield content.document, None)))
        return args

    def _written_args(self) -> Sequence[str]:
        """Return the arguments as written; not cached, because nested blocks would each keep a copy of their text."""
        parts = self.args if self.content is None else (*self.args, self.content)
        return LazySequence(len(parts), lambda index: parts[index].text)

    def _block(self, text: str) -> str:
        if "#" in self.flags or (self.target is not None and self.target[1].delayed):
            return text
        return dedent(text)

    def _find(self, run: Run) -> tuple[str, MacroDefinition] | None:
        """Return the called macro: one given for this expansion, else the registered one."""
        if run.dynamic is not None and self.key in run.dynamic:
            # A dynamic macro that is no macro does not hide the registered one.
            return self._dynamic_target(run, run.dynamic[self.key]) or self.target
        return self.target

    def _call(self, run: Run, target: tuple[str, MacroDefinition] | None, args: Sequence[str]) -> str:
        """Call the handler, or keep the text if that is not possible."""
        if target is None:
            if self.key not in run.overrides.leave:
                self._report(run, "unknown_macro", "", f"unknown macro {{{{{self.name}}}}} stays as text")
            return self.keep(args)
        name, definition = target
        handler = definition.handler
        if handler is None or not self._may_run(run, name, definition, args):
            return self.keep(args)
        try:
            result = handler(MacroCall(run, self, name, definition, args))
        except (MacroError, StrictModeError):
            raise
        except OutOfRoomError:
            return self.keep(args)
        except Exception as error:  # noqa: BLE001  # a handler is foreign code: whatever it raises, the text stays
            self._report(run, "internal_error", "handler", f"{{{{{name}}}}} failed and stays as text: {error}", name)
            return self.keep(args)
        return self._deliver(run, result if isinstance(result, str) else to_text(result), args)

    def _may_run(self, run: Run, name: str, definition: MacroDefinition, args: Sequence[str]) -> bool:
        if not run.take_step(self.position, name):
            return False
        problem = arity_problem(definition, len(args))
        if problem is not None:
            unclosed = self.content is None and definition.control is not None and definition.takes_scope(len(args))
            if unclosed:
                problem += f" (no {{{{/{self.name}}}}} closes its block)"
            self._report(run, "runtime_warning", "arity", f"{{{{{name}}}}} {problem}", name, unclosed=unclosed)
        elif definition.typed:
            problem = type_problem(definition, args)
            if problem is not None:
                self._report(run, "runtime_warning", "type", f"{{{{{name}}}}} {problem}", name)
        return problem is None or not definition.strict_args

    def _deliver(self, run: Run, text: str, args: Sequence[str]) -> str:
        # SillyTavern post-processes results only: neither text that is kept nor shorthands.
        if run.post_process is not None:
            text = run.post_process(text)
        if not run.take_output(len(text), self.position, self.name):
            return self.keep(args)
        return expanded(text, self.name, self.source) if run.traced else text

    def _dynamic_target(self, run: Run, macro: DynamicMacro | None) -> tuple[str, MacroDefinition] | None:
        # Handlers of dynamic macros see the name as the call spells it, others as it was registered.
        if isinstance(macro, MacroDefinition):
            return self.name, macro
        if isinstance(macro, str):
            return self.name, MacroDefinition(name="value", handler=lambda _call: macro)
        if isinstance(macro, (bool, int, float)):  # works, but SillyTavern warns
            self._report(
                run, "runtime_warning", "dynamic", f"{{{{{self.name}}}}} is set to {macro!r}, which is not text"
            )
            return self.name, MacroDefinition(name="value", handler=lambda _call: macro)
        if callable(macro):
            return self.name, MacroDefinition(name="value", handler=macro)
        self._report(
            run, "runtime_warning", "dynamic", f"{{{{{self.name}}}}} is set to {macro!r:.80}, which is not a macro"
        )
        return None

    def inner_text(self, args: Sequence[str]) -> str:
        """Return the call as written, without its outer braces, with replaced arguments, including the block."""
        frame = self.frame
        pieces = [frame[0]]
        for index in range(1, len(frame)):
            pieces.append(args[index - 1])
            pieces.append(frame[index])
        # SillyTavern keeps the block without its closing tag: `{{nosuch}} bar {{/nosuch}}` becomes `{{nosuch}}bar}}`.
        if self.content is not None and not self.content.empty:
            pieces.append("}}")
            pieces.append(args[len(self.args)])
        return join("", pieces)

    def keep(self, args: Sequence[str]) -> str:
        """Return the text that stays if the macro cannot run."""
        return "{{" + self.inner_text(args) + "}}"

    def _report(
        self, run: Run, kind: DiagnosticKind, about: str, message: str, name: str = "", *, unclosed: bool = False
    ) -> None:
        run.report(
            Diagnostic(
                kind=kind,
                message=message,
                about=about,
                macro=name or self.name,
                position=self.position,
                unclosed=unclosed,
            )
        )
