"""The one mutable thing of a build: what its steps hand each other."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from tavernkit.errors import ConfigError, StrictModeError, WarningCounts
from tavernkit.prompt.block import Block
from tavernkit.prompt.context import Context
from tavernkit.prompt.omission import Omission
from tavernkit.stores.variables import InMemoryVariablesStore, VariablesOverlay
from tavernkit.values import thaw_object

if TYPE_CHECKING:
    from tavernkit.prompt.plan import Plan
    from tavernkit.prompt.source_mapping import Again

ContextT_co = TypeVar("ContextT_co", bound=Context, covariant=True)


class BuildState(Generic[ContextT_co]):
    """Workspace of one build. Platforms subclass it with typed attributes of their own."""

    def __init__(self, context: ContextT_co) -> None:
        self._context = context
        self._inputs_open = False
        self.variables: VariablesOverlay = VariablesOverlay(context.variables or InMemoryVariablesStore())
        """The chat's variables: what the build writes is kept here until its turn is received."""
        self.blocks: list[Block] = []
        self.plan: Plan | None = None
        self.llm_options: dict[str, object] = dict(thaw_object(context.llm_options))
        self.omissions: list[Omission] = []
        self.warnings: list[str] = []
        self.warning_counts = WarningCounts()
        self.degraded: list[str] = []
        self.metadata: dict[str, object] = {}
        self.current_step: str | None = None
        self.again: Again | None = None
        """Builds a plan again with traced texts, for its source map."""

    @property
    def context(self) -> ContextT_co:
        """The frozen input. Only before-build hooks may change it, with :meth:`change_inputs`."""
        return self._context

    @contextmanager
    def inputs_open(self) -> Generator[None]:
        """Allow :meth:`change_inputs` for a while."""
        before, self._inputs_open = self._inputs_open, True
        try:
            yield
        finally:
            self._inputs_open = before

    def change_inputs(self, **changes: object) -> None:
        """Replace inputs of this build (a message, the character, …) from a before-build hook."""
        if not self._inputs_open:
            raise ConfigError("inputs can only be changed in a before-build hook: register one in HookRegistry")
        self._context = self._context.replace(**changes)

    def warn(self, message: str) -> None:
        """Report a problem with external input: kept, traced, raised in strict mode, else handed to the handler.

        Of many that are alike only the first are; the others are counted.
        """
        if not self.warning_counts.take(message):
            if self._context.strict:
                raise StrictModeError(message)
            return
        self.warnings.append(message)
        instrumenter = self._context.instrumenter
        if instrumenter is not None:
            instrumenter("warning", {"message": message, "step": self.current_step})
        if self._context.strict:
            raise StrictModeError(message)
        if self._context.warn is not None:
            self._context.warn(message)

    def omit(self, omission: Omission) -> None:
        """Record something that was left out, with the reason."""
        self.omissions.append(omission)

    def instrument(
        self, event: str, lazy: Callable[[], Mapping[str, object]] | None = None, /, **payload: object
    ) -> None:
        """Tell the instrumenter, if there is one; ``lazy`` is called only then and adds to the payload."""
        instrumenter = self._context.instrumenter
        if instrumenter is not None:
            instrumenter(event, {**payload, **lazy()} if lazy else payload)

    def stat(self, key: str, value: object) -> None:
        """Record a counter of the current step."""
        self.instrument("stat", key=key, value=value, step=self.current_step)

    def copy(self) -> Self:
        """A copy for trying something out: containers are copied one level deep."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, dict)):
                setattr(twin, name, copy.copy(value))  # pyright: ignore[reportUnknownArgumentType]  # any container
        return twin
