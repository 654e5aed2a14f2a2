"""Makes the plan: a last check of the budget, then blocks."""

from __future__ import annotations

from tavernkit.prompt._block import Omission
from tavernkit.prompt._context import CACHE, REFERENCE
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.risu_ai._budget.overflow import generic_trim, reference_report, refuse_lost_user_message
from tavernkit.risu_ai._budget.trimming import blank_removable
from tavernkit.risu_ai._caching.placing import cache_marks, moved_lore
from tavernkit.risu_ai._plan import RisuPlan, llm_options, make_blocks
from tavernkit.risu_ai._prompt_template.omissions import lore_omissions, prompt_omissions, slot_omissions
from tavernkit.risu_ai._requests.messages import RequestRules, with_bias
from tavernkit.risu_ai._requests.text_completion import TextRules
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai._triggers.build_triggers import edit_list

STOPPED = "a start trigger stopped the send"


class PlanAssemblyStep(Step[RisuState, NoConfig]):
    """Lets Lua edit the list, counts it once more (chat items are blanked if it is too long), and makes the plan.

    With a generic ``strategy`` the trimmer decides here instead. Reads ``messages``, ``preset``, ``chat``. Writes
    ``messages``, ``dropped``, ``blocks``, ``llm_options``, ``trim_report`` and ``plan``.
    """

    name = "plan_assembly"

    def before(self, state: RisuState) -> None:
        """Make the plan."""
        reference = state.context.strategy in (REFERENCE, CACHE)
        if not state.stopped:
            state.messages = edit_list(state, state.messages)
        if reference and not state.stopped:
            checked = blank_removable(state.messages, state.preset.max_context, state.counter)
            if checked.dropped:
                state.dropped = [*state.dropped, *checked.dropped]
            state.messages = checked.messages
            if checked.required_tokens is not None:
                state.refuse(checked.required_tokens)
        tokens = list(map(state.counter.message, state.messages))
        state.blocks = make_blocks(state.messages, tokens, state.services.blocks)
        state.llm_options = {**llm_options(state.preset, sum(tokens)), **state.llm_options}
        plan = _plan(state)
        if state.stopped:
            state.omit(Omission("prompt", "everything", STOPPED))
            state.plan = plan
            return
        left_out = (
            *slot_omissions(state.slots, state.template, state.preset.formating_order),
            *lore_omissions(state.lore, state.template),
            *prompt_omissions(state),
        )
        for omission in left_out:
            state.omit(omission)
        if reference:
            plan = plan.replace(trim_report=reference_report(state, sum(tokens)))
            refuse_lost_user_message(state, plan)
        else:
            plan = generic_trim(state, plan)
        state.plan, state.trim_report = plan, plan.trim_report


def _plan(state: RisuState) -> RisuPlan:
    texts = state.texts.context
    return RisuPlan(
        blocks=state.blocks,
        lore_result=state.lore_result,
        llm_options=state.llm_options,  # pyright: ignore[reportArgumentType]  # frozen by the plan
        count_tokens=state.counter.text,
        greeting=state.greeting,
        greeting_index=None if state.chat.greeting_index is None else int(state.chat.greeting_index) + 1,
        chat=state.chat,
        character=texts.character,
        last_memory=state.last_memory,
        moved=(*state.moved, *moved_lore(state, state.messages)),
        memory_data=state.memory_data,
        cache_marks=cache_marks(state.context),
        stopped=state.stopped,
        rules=with_bias(
            RequestRules.of(state.preset, state.context.settings, tool_calls=state.context.tool_calls),
            texts.character,
            state.texts,
        ),
        text_rules=TextRules.of(
            state.preset,
            character_name=texts.character_name or "",
            user_name=texts.user_name or "",
            continued=state.context.continued,
        ),
    )
