"""The state of one expansion, for both engines."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._macros import BuildBudget
from tavernkit.silly_tavern._macros.call import Diagnostic, MeteredVariables, Report
from tavernkit.silly_tavern._macros.card_macros import CardMacros
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.limits import (
    FREE_TOKENS_OF_A_STEP,
    MAX_DICE_IN_ALL,
    MAX_OUTPUT_CHARS,
    MAX_PARSED_CHARS,
    MAX_RESOLVE_DEPTH,
    MAX_STEPS,
    STEPS_OF_A_REPORT,
    TOKENS_OF_A_STEP,
)
from tavernkit.silly_tavern._macros.registry import Handler, MacroDefinition, MacroNames
from tavernkit.silly_tavern._macros.seeding import text_hash
from tavernkit.silly_tavern._macros.source import Positions
from tavernkit.stores._variables import VariablesStore

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.engine import MacroEngine

DynamicMacro: TypeAlias = "str | int | float | bool | Handler | MacroDefinition"
"""What a macro passed for one expansion may be: a text, a handler without arguments, or a definition."""

PostProcess: TypeAlias = Callable[[str], str]
"""Changes the result of each macro, before it goes into the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values of one expansion that replace the environment's own: names, the text for ``{{original}}``, more macros.

    ``leave`` lists macros (in lower case) that the caller replaces itself: they stay in the text without a warning.
    """

    user_name: str | None = None
    """The user's name."""
    character_name: str | None = None
    """The character's name."""
    group: str | None = None
    """The text for ``{{group}}``."""
    original: str | None = None
    """The text for ``{{original}}``, which can be used once."""
    card: bool = True
    """False if macros of the card's fields are empty; the legacy engine leaves them as they are."""
    macros: Mapping[str, DynamicMacro] | None = None
    """More macros for this expansion, by name."""
    post_process: PostProcess | None = None
    """Changes the result of each macro."""
    leave: MacroNames = ()


@dataclass(slots=True)
class Budget:
    """How much of its limits an expansion has used, including nested ones; ``reported`` are limits it has hit."""

    steps: int = 0
    produced: int = 0
    parsed: int = 0
    depth: int = 0
    dice: int = 0
    variables: int = 0
    tokens: int = 0
    reports: int = 0
    reported: set[str] = field(default_factory=set[str])

    def fits(self, length: int) -> bool:
        """Count the characters of a macro's result; return True if they fit."""
        self.produced += length
        return self.produced <= MAX_OUTPUT_CHARS

    @property
    def spent(self) -> bool:
        """True if the budget is used up."""
        return self.produced > MAX_OUTPUT_CHARS

    @property
    def work(self) -> int:
        """Its cost in a build, in steps. It does not depend on what is cached."""
        other = max(0, self.tokens - FREE_TOKENS_OF_A_STEP * self.steps) // TOKENS_OF_A_STEP
        return self.steps + STEPS_OF_A_REPORT * self.reports + other


class Expansion(ABC):
    """One expansion: environment, overrides, names, limits. ``base`` is added to the offsets of calls."""

    def __init__(
        self,
        environment: MacroEnvironment,
        overrides: Overrides,
        send: Report,
        text: str,
        *,
        budget: Budget | None,
        where: str,
    ) -> None:
        self.environment = environment
        self.overrides = overrides
        self.text = text
        self.traced = type(text) is not str
        """True if the text is one of a build for a source map."""
        self.budget = Budget() if budget is None else budget
        self.base = 0
        self.post_process = overrides.post_process
        self.original = overrides.original
        name = overrides.user_name
        self.user_name = environment.user_name if name is None else name
        name = overrides.character_name
        self.character_name = environment.character_name if name is None else name
        self.send = send
        self._where = where
        self._cards: CardMacros | None = None
        self._positions: Positions | None = None
        self._text_hash: int | None = None

    @property
    def variables(self) -> VariablesStore:
        """The variables, as far as this expansion may read them."""
        return MeteredVariables(self.environment.variables, self)

    def close(self) -> None:
        """Drop the texts of the card, which refer to this expansion, so that its memory is freed at once."""
        self._cards = None

    @abstractmethod
    def expand_inside(self, text: str) -> str:
        """Expand a text as part of this expansion."""

    @abstractmethod
    def fork(self, text: str, overrides: Overrides, where: str) -> Expansion:
        """Return an expansion of another text, within the limits of this one."""

    @property
    def cards(self) -> CardMacros:
        """The texts of the card, each expanded when it is first asked for."""
        if self._cards is None:
            self._cards = self.make_cards()
        return self._cards

    def make_cards(self) -> CardMacros:
        """The texts of the card; example dialogue is written with the names of this expansion."""
        return CardMacros(
            self.environment, self.expand_apart, self.user_name, self.character_name, on=self.overrides.card
        )

    def report(self, diagnostic: Diagnostic) -> None:
        """Report a problem, at its position in the original text."""
        self.budget.reports += 1
        changes: dict[str, object] = {}
        if diagnostic.position is not None:
            if self._positions is None:
                self._positions = Positions(self.text)
            original = self._positions.original(diagnostic.position)
            if original != diagnostic.position:
                changes["position"] = original
        if self._where:
            changes["message"] = f"{diagnostic.message} in {self._where}"
        self.send(dataclasses.replace(diagnostic, **changes) if changes else diagnostic)

    def report_limit(
        self, about: str, message: str, *, macro: str = "", position: int | None = None, count: int = 1
    ) -> None:
        """Report a limit that was hit, once per expansion."""
        if about not in self.budget.reported:
            self.budget.reported.add(about)
            self.report(
                Diagnostic(kind="limit", message=message, about=about, macro=macro, position=position, count=count)
            )

    def take_output(self, length: int, position: int | None = None, macro: str = "") -> bool:
        """Count the result of a macro; return True if it fits."""
        if self.budget.fits(length):
            return True
        message = f"the macros of one expansion give more than {MAX_OUTPUT_CHARS} characters; the rest stays as text"
        self.report_limit("output", message, macro=macro, position=position)
        return False

    def take_dice(self, count: int) -> bool:
        """Count dice; return True if they may be thrown."""
        self.budget.dice += count
        if self.budget.dice <= MAX_DICE_IN_ALL:
            return True
        self.report_limit("dice", f"the macros of one expansion roll more than {MAX_DICE_IN_ALL} dice")
        return False

    @property
    def text_hash(self) -> int:
        """The hash of the whole text."""
        if self._text_hash is None:
            self._text_hash = text_hash(self.text)
        return self._text_hash

    def resolve(self, text: str, offset: int) -> str:
        """Expand a text for a handler: a complete expansion inside this one, with offsets based at its call."""
        if not text or not self._enter("a handler"):
            return text
        base, self.base = self.base, offset
        try:
            return self.expand_inside(text)
        finally:
            self.base = base
            self.budget.depth -= 1

    def expand_apart(
        self,
        text: str,
        where: str,
        *,
        user_name: str | None = None,
        character_name: str | None = None,
        card: bool = True,
        leave: MacroNames = (),
    ) -> str:
        """Expand a separate text, within the limits of this expansion."""
        if not text or not self._enter(where):
            return text
        overrides = Overrides(user_name=user_name, character_name=character_name, card=card, leave=leave)
        inner = self.fork(text, overrides, where)
        try:
            return inner.expand_inside(text)
        finally:
            inner.close()
            self.budget.depth -= 1

    def _enter(self, where: str) -> bool:
        if self.budget.depth >= MAX_RESOLVE_DEPTH:
            self.report_limit(
                "depth",
                f"{where} expands texts more than {MAX_RESOLVE_DEPTH} levels deep; the innermost stays as it is",
                count=MAX_RESOLVE_DEPTH,
            )
            return False
        self.budget.depth += 1
        return True


class Run(Expansion):
    """An expansion by the Macros 2.0 engine."""

    def __init__(
        self,
        engine: MacroEngine,
        environment: MacroEnvironment,
        overrides: Overrides,
        send: Report,
        text: str,
        *,
        budget: Budget | None = None,
        where: str = "",
    ) -> None:
        super().__init__(environment, overrides, send, text, budget=budget, where=where)
        self.engine = engine
        self.dynamic: dict[str, DynamicMacro] | None = None
        if overrides.macros:
            self.dynamic = {name.lower(): macro for name, macro in overrides.macros.items()}

    def expand_inside(self, text: str) -> str:
        """Expand a text as part of this expansion."""
        return self.engine.resolve(text, self)

    def fork(self, text: str, overrides: Overrides, where: str) -> Run:
        """Return an expansion of another text, within the limits of this one."""
        return Run(self.engine, self.environment, overrides, self.send, text, budget=self.budget, where=where)

    def take_step(self, position: int, macro: str = "") -> bool:
        """Count one macro; return True if it may run."""
        self.budget.steps += 1
        if self.budget.steps <= MAX_STEPS:
            return True
        message = f"more than {MAX_STEPS} macros in one expansion; the rest stays as text"
        self.report_limit("steps", message, macro=macro, position=position)
        return False

    def take_parsing(self, length: int, position: int) -> bool:
        """Count text that is parsed again; return False if the limit is reached."""
        self.budget.parsed += length
        if self.budget.parsed <= MAX_PARSED_CHARS:
            return True
        message = (
            f"malformed blocks made one expansion parse over {MAX_PARSED_CHARS} characters; the rest stays as text"
        )
        self.report_limit("parsing", message, position=position)
        return False


def refused(text: str, budget: BuildBudget, send: Report) -> str:
    """Keep a text unexpanded because its build has used up its budget; reported once per build."""
    if not budget.reported:
        budget.reported = True
        message = "the macros of this build do too much work together: the other texts stay as they are"
        send(Diagnostic(kind="limit", message=message, about="build"))
    return text
