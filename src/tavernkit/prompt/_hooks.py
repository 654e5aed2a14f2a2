"""Functions an application runs before and after a build."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from tavernkit.prompt._context import BuildState, Context

Hook: TypeAlias = Callable[["BuildState[Context]"], None]
"""Gets the state. Before a build it may change inputs (``BuildState.change_inputs()``), not blocks; after it, it may
replace ``state.plan``. Report recoverable problems with ``state.warn``."""

HookT = TypeVar("HookT", bound="Callable[..., None]")


class HookRegistry:
    """Build hooks, run in the order they were registered.

    >>> hooks = HookRegistry()
    >>> @hooks.before_build
    ... def shout(state):
    ...     state.change_inputs(message=state.context.message.upper())
    """

    def __init__(self) -> None:
        self._before: list[Hook] = []
        self._after: list[Hook] = []
        self._lock = threading.Lock()

    def before_build(self, hook: HookT) -> HookT:
        """Run ``hook`` before the build; usable as a decorator."""
        with self._lock:
            self._before.append(hook)
        return hook

    def after_build(self, hook: HookT) -> HookT:
        """Run ``hook`` after the build; usable as a decorator."""
        with self._lock:
            self._after.append(hook)
        return hook

    def run_before_build(self, state: BuildState[Context]) -> None:
        """Run the hooks registered with ``before_build()``; they may change the inputs."""
        with state.inputs_open():
            for hook in tuple(self._before):
                hook(state)

    def run_after_build(self, state: BuildState[Context]) -> None:
        """Run the hooks registered with ``after_build()``."""
        for hook in tuple(self._after):
            hook(state)

    @property
    def only_before(self) -> bool:
        """True if no hook runs after the build."""
        return not self._after


def followed_by(hooks: HookRegistry, change: Callable[[BuildState[Context]], None]) -> HookRegistry:
    """Return hooks that run before a build, and then another one.

    Args:
        hooks: The hooks; those after the build are left out.
        change: Runs after them.
    """
    both = HookRegistry()
    both.before_build(hooks.run_before_build)
    both.before_build(change)
    return both
