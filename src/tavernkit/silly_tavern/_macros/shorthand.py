"""Variable shorthands: ``{{.local}}``, ``{{$global += 1}}`` and the other operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tavernkit._text.js_values import to_number, trim
from tavernkit._text.traced import expanded
from tavernkit._values import Json
from tavernkit.errors import MacroError, StrictModeError
from tavernkit.silly_tavern._macros import variables
from tavernkit.silly_tavern._macros.call import Diagnostic, OutOfRoomError, to_text

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.nodes import Part, Steps
    from tavernkit.silly_tavern._macros.run import Run
    from tavernkit.silly_tavern._macros.source import Source

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
}


class ShorthandNode:
    """A shorthand: the scope and name of a variable, an operator and its operand."""

    __slots__ = ("_span", "name", "operand", "operator", "position", "scope", "simple")

    def __init__(
        self,
        *,
        span: tuple[Source, int, int],
        scope: str,
        name: str,
        operator: str,
        operand: Part | None,
        position: int,
    ) -> None:
        self._span = span
        self.scope = scope
        self.name = name
        self.operator = operator
        self.operand = operand
        self.position = position
        self.simple = operand is None or operand.document is None

    @property
    def source(self) -> str:
        """The shorthand as written."""
        source, start, end = self._span
        return source.text[start:end]

    def value(self, run: Run) -> str:
        """Evaluate a shorthand whose operand is plain text."""
        try:
            current = self._without_operand(run)
            left = self._left_side(run)
        except OutOfRoomError:
            return self.source
        if current is not None:
            return current
        return self._with_operand(run, "" if self.operand is None else trim(self.operand.text), left)

    def steps(self, run: Run) -> Steps:
        """Evaluate the operand, if the operator needs it, and apply the operator."""
        try:
            current = self._without_operand(run)
            left = self._left_side(run)
        except OutOfRoomError:
            return self.source
        if current is not None:
            return current
        assert self.operand is not None  # otherwise it is simple
        assert self.operand.document is not None
        return self._with_operand(run, trim((yield self.operand.document, None)), left)

    def _without_operand(self, run: Run) -> str | None:
        """Return the result of ``||`` and ``??`` if the variable alone decides it."""
        store = run.variables
        if self.operator in ("||", "||="):
            current = variables.read(store, self.name, self.scope)
            return None if variables.is_false(current) else to_text(current)
        if self.operator in ("??", "??="):
            # Unlike ||, these first check whether the variable exists, which does not create an empty store.
            if not variables.exists(store, self.name, self.scope):
                return None
            return to_text(variables.read(store, self.name, self.scope))
        return None

    def _left_side(self, run: Run) -> Json:
        """Read the left side of a comparison before its operand is evaluated, which may change the variable."""
        if self.operator in ("==", "!=") or self.operator in _COMPARISONS:
            return variables.read(run.variables, self.name, self.scope)
        return None

    def _with_operand(self, run: Run, operand: str, left: Json) -> str:
        if not run.take_step(self.position):
            return self.source
        try:
            text = to_text(self._apply(run, operand, left))
        except (MacroError, StrictModeError):
            raise
        except OutOfRoomError:
            return self.source
        except Exception as error:  # noqa: BLE001  # a store may be foreign code: whatever it raises, the text stays
            run.report(
                Diagnostic(
                    kind="internal_error",
                    message=f"{self.source:.80} failed and stays as text: {error}",
                    about="handler",
                    macro="unknown",
                    position=self.position,
                )
            )
            return self.source
        if not run.take_output(len(text), self.position):
            return self.source
        return expanded(text, self.name, self.source) if run.traced else text

    def _apply(self, run: Run, operand: str, left: Json) -> Json:
        store, operator = run.variables, self.operator
        if not operator:
            return variables.read(store, self.name, self.scope)
        if operator in ("++", "--"):
            return variables.add(store, self.name, 1.0 if operator == "++" else -1.0, self.scope)
        if operator in ("==", "!="):
            return (to_text(left) == operand) == (operator == "==")
        if operator in _COMPARISONS:
            return self._compare(run, left, operand)
        if operator == "-=":
            self._subtract(run, operand)
        elif operator == "+=":
            variables.add(store, self.name, operand, self.scope)
        elif operator in ("=", "||=", "??="):
            variables.write(store, self.name, operand, self.scope)
        return operand if operator in ("||", "??", "||=", "??=") else ""

    def _compare(self, run: Run, left: Json, operand: str) -> bool:
        # A missing variable counts as 0 here, although it is not equal to 0.
        number, other = to_number(left), to_number(operand)
        if math.isnan(number) or math.isnan(other):
            self._warn_of_text(run, operand if math.isnan(other) else to_text(left))
            return False
        return _COMPARISONS[self.operator](number, other)

    def _subtract(self, run: Run, operand: str) -> None:
        # Only `+=` joins text: without a number to subtract nothing is stored.
        number = to_number(operand)
        if math.isnan(number):
            self._warn_of_text(run, operand)
        else:
            variables.add(run.variables, self.name, -number, self.scope)

    def _warn_of_text(self, run: Run, text: str) -> None:
        run.report(
            Diagnostic(
                kind="runtime_warning",
                message=f"{self.source:.80}: {self.operator} needs numbers, not {text!r:.80}",
                about="shorthand",
                macro="unknown",
                position=self.position,
            )
        )
