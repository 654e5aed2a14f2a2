"""Reports what the budget of a text prompt left out."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._values import LazySequence
from tavernkit.budget._report import EvictionRecord, TrimReport
from tavernkit.budget._trimmer import apply, trim
from tavernkit.prompt._block import Omission
from tavernkit.prompt._context import CACHE, REFERENCE
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._chat_completion.prompt_collection import CHAT_HISTORY
from tavernkit.silly_tavern._provenance import title_of
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._text_completion.assembly import AssembledText
from tavernkit.silly_tavern._text_completion.plan import TextPlan
from tavernkit.silly_tavern._token_counting.messages import CountingEstimator, TextCounter


def trim_text(state: SillyTavernState) -> None:
    """Report what the assembly left out; with a generic strategy, leave it out here."""
    plan, assembled = state.plan, state.assembled_text
    if not isinstance(plan, TextPlan) or assembled is None:
        return
    if state.context.strategy in (REFERENCE, CACHE):
        if not state.reports:
            return
        report = _report(state, plan, assembled)
        state.trim_report, state.plan = report, plan.replace(trim_report=report)
        _tell(state, assembled)
    else:
        _trim(state, plan)


def _trim(state: SillyTavernState, plan: TextPlan) -> None:
    context = state.context
    result = trim(
        plan.blocks,
        strategy=context.strategy,
        max_tokens=context.max_context,
        reserve_tokens=context.max_context - state.draft.limit,
        token_estimator=CountingEstimator(state.text_counter.text),
        message_overhead_tokens=0,
        step="trimming",
        on_overflow="return",
    )
    state.trim_report = result.report
    state.plan = plan.replace(blocks=tuple(apply(plan.blocks, result)), trim_report=result.report)
    if not result.report.fits:
        state.warn(f"the prompt needs {result.report.final_tokens} tokens, {result.report.budget_tokens} are available")


def _report(state: SillyTavernState, plan: TextPlan, assembled: AssembledText) -> TrimReport:
    """The report of the assembly; ``initial_tokens`` counts only what was tried."""
    counter = state.text_counter
    final = counter.prompt(plan.prompt)
    tried = assembled.left_out[:1]
    more = sum(counter.text(item.text) for item in tried)
    more += sum(counter.text(segment.text) for segment in assembled.left_out_examples[:1])
    return TrimReport(
        strategy=state.context.strategy,
        budget_tokens=state.draft.limit,
        initial_tokens=final + more,
        final_tokens=final,
        evictions=_evictions(assembled, counter),
    )


def _tell(state: SillyTavernState, assembled: AssembledText) -> None:
    """Report what is missing; a chat without its newest message, or without any, gives a warning."""
    reason = "does not fit the token budget"
    lost = assembled.left_out_entries
    if assembled.cut is not None:
        reason = f"older than message #{assembled.cut}, where the history was cut so that prompts begin alike"
    between = assembled.left_out_inserted
    for message in between:
        state.omit(Omission("injection", message.origin.id, reason, title_of(message.origin.source)))
    injected = [message for message in between if message.frozen is None]
    chat = [entry for entry in lost if type(entry) is CoreMessage] if between else lost
    if chat:
        newest, oldest = (
            f"{CHAT_HISTORY}-{entry.index}" for entry in (chat[0], chat[-1]) if type(entry) is CoreMessage
        )
        span = newest if len(chat) == 1 else f"{oldest} to {newest}"
        state.omit(Omission("history", span, reason, f"{len(chat)} messages"))
    if assembled.cut is not None:
        reason = "makes room for the chat, and stays out so that prompts begin alike"
    for segment in assembled.left_out_examples:
        state.omit(Omission("example", segment.origin.id, reason, title_of(segment.origin.source)))
    if injected:
        names = ", ".join(title_of(message.origin.source) for message in injected)
        state.warn(f"no room for texts inside the chat: {names} left out")
    if not assembled.history and not assembled.continued:
        state.warn("the prompt has no room for the chat: all messages and the reply line are left out")
    elif chat and chat[0] is state.core[-1]:
        state.warn(f"the newest message ({state.core[-1].text!r:.40}) does not fit and is left out")


def _evictions(assembled: AssembledText, counter: TextCounter) -> Sequence[EvictionRecord]:
    """Return records of what was left out, newest message first, then examples; made and counted on demand."""
    items, examples = assembled.left_out, assembled.left_out_examples

    def record(place: int) -> EvictionRecord:
        segment = items[place].segments[0] if place < len(items) else examples[place - len(items)]
        origin = segment.origin
        return EvictionRecord(
            block_id=origin.id,
            token_count=counter.text(segment.text),
            reason="budget_exceeded",
            budget_group=origin.group,
            slot=origin.slot,
            source=origin.source,
        )

    return LazySequence(len(items) + len(examples), record)
