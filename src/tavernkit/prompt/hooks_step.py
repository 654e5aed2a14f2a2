"""The application's own functions, before and after a build."""

from __future__ import annotations

from tavernkit.prompt.context import Context
from tavernkit.prompt.state import BuildState
from tavernkit.prompt.step import NoConfig, Step


class HooksStep(Step[BuildState[Context], NoConfig]):
    """Runs the hooks of ``context.hooks``: before the build they may change its inputs, after it its plan.

    Reads and, through the hooks, writes ``context``; ``after`` reads and writes ``plan``.
    """

    name = "hooks"

    def before(self, state: BuildState[Context]) -> None:
        """Run the before-build hooks."""
        if state.context.hooks is not None:
            state.context.hooks.run_before_build(state)

    def after(self, state: BuildState[Context]) -> None:
        """Run the after-build hooks."""
        if state.context.hooks is not None:
            state.context.hooks.run_after_build(state)
