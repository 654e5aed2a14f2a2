"""The lorebook: which entries are active."""

from __future__ import annotations

from tavernkit._values import LazySequence
from tavernkit.prompt._context import FREEZE
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.risu_ai._caching import freeze_lore
from tavernkit.risu_ai._lorebook.engine import LorebookSettings, ScanInput
from tavernkit.risu_ai._lorebook.keys import LoreMessage
from tavernkit.risu_ai._lorebook.result import LorebookResult
from tavernkit.risu_ai._state import RisuState


class LoreStep(Step[RisuState, NoConfig]):
    """Scans the lore of the character (or group), the chat and the modules over the expanded chat.

    Reads ``chat`` and ``texts``. Writes ``lore`` and ``lore_result``, and the marks of entries that are stored as chat
    variables.
    """

    name = "lore"

    def before(self, state: RisuState) -> None:
        """Scan."""
        result = _scan(state)
        for name, value in result.markers.items():
            state.texts.context.set_var(name, value)
        state.lore, state.lore_result = result.actives, result
        if state.context.lore == FREEZE:
            state.lore = freeze_lore(state, result)
        state.stat("lore_activated", len(result.actives))
        for omission in result.omissions:
            state.omit(omission)


def _scan(state: RisuState) -> LorebookResult:
    context, settings = state.texts.context, state.context.settings
    defaults = LorebookSettings(scan_depth=settings.lorebook_depth, token_budget=settings.lorebook_tokens)
    lore = state.services.lore(context, defaults, state.warn)
    stored = state.chat.messages
    return (state.context.lore_engine or state.services.lore_engine).scan(
        ScanInput(
            entries=lore.compiled,
            messages=LazySequence(len(stored), lambda place: LoreMessage(stored[place].role, stored[place].data)),
            settings=lore.settings,
            greeting_index=state.chat.greeting_index,
            count_tokens=state.counter.text,
            random=context.random,
            chat_variable=context.chat_variable,
            warn=state.warn,
            strict=state.context.strict,
        ),
    )
