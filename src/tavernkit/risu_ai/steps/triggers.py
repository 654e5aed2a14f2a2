"""Start triggers."""

from __future__ import annotations

from tavernkit.prompt.step import NoConfig, Step
from tavernkit.risu_ai.state import RisuState


class TriggersStep(Step[RisuState, NoConfig]):
    """Runs the ``start`` triggers of the speaking character and of the modules.

    Reads ``chat``, ``character``. Writes ``chat``, ``stopped``, ``total`` and the texts triggers add to the prompt.
    """

    name = "triggers"

    def before(self, state: RisuState) -> None:
        """Run them."""
