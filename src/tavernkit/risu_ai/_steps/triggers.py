"""Start triggers."""

from __future__ import annotations

from tavernkit.prompt._block import Omission
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai._triggers.build_triggers import run_build_triggers


class TriggersStep(Step[RisuState, NoConfig]):
    """Runs the ``start`` triggers of the speaking character and of the modules.

    They run after slots, lore and greeting are made: what they set is seen by template cards, lore in the chat, the
    depth prompt and messages they add. Reads ``chat``, ``texts``. Writes ``chat``, ``stopped``, ``additions`` and
    ``total``.
    """

    name = "triggers"

    def before(self, state: RisuState) -> None:
        """Run them."""
        result = run_build_triggers(state, "start")
        if result is None:
            return
        state.additions = result.additions
        for place in result.additions.elsewhere:
            state.omit(
                Omission("prompt", f"trigger {place}", f"triggers cannot add texts to the prompt at {place!r:.40}")
            )
        state.stopped = result.stop_sending
        state.total += result.tokens
