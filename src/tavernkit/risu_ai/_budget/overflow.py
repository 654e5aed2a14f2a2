"""Reports what did not fit, or refuses it."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._values import LazySequence
from tavernkit.budget._report import EvictionRecord, TrimReport
from tavernkit.budget._trimmer import apply, trim
from tavernkit.errors import MaxTokensExceededError
from tavernkit.prompt._builder import finished_plan
from tavernkit.prompt._plan import Plan
from tavernkit.risu_ai._budget.token_counting import RESERVE, MessageCounter
from tavernkit.risu_ai._budget.trimming import Dropped, dropped_tokens, omissions_of
from tavernkit.risu_ai._chat.chat_log import chat_id
from tavernkit.risu_ai._state import RisuState


def reference_report(state: RisuState, final_tokens: int) -> TrimReport:
    """Report what RisuAI's own trimming left out."""
    for omission in omissions_of(state.dropped):
        state.omit(omission)
    return TrimReport(
        strategy=state.context.strategy,
        budget_tokens=state.preset.max_context - state.preset.max_response - RESERVE,
        initial_tokens=final_tokens + dropped_tokens(state.dropped),
        final_tokens=final_tokens,
        evictions=_evictions(state.dropped),
    )


def refuse_lost_user_message(state: RisuState, plan: Plan) -> None:
    """Raise if the user's latest message did not fit: RisuAI would silently drop it."""
    sent, _ = state.sent
    latest = next((message for message in reversed(sent) if message.role == "user"), None)
    memo = chat_id(latest) if latest is not None else None
    if latest is None or memo in [message.memo for message in state.messages]:
        return
    if memo not in [dropped.message.memo for dropped in state.dropped]:
        return
    needed = state.preset.max_response + RESERVE + (plan.trim_report.initial_tokens if plan.trim_report else 0)
    if state.context.on_overflow == "return" or state.context.quirks:
        state.warn(f"the latest user message ({latest.data!r:.40}) does not fit; the prompt is what RisuAI would send")
        return
    state.plan = plan
    raise MaxTokensExceededError(
        estimated_tokens=needed,
        max_tokens=state.preset.max_context,
        reserve_tokens=state.preset.max_response,
        step=state.current_step,
        partial=finished_plan(state),
    )


def generic_trim(state: RisuState, plan: Plan) -> Plan:
    """Make a plan fit with one of the generic strategies."""
    result = trim(
        plan.blocks,
        strategy=state.context.strategy,
        max_tokens=state.preset.max_context,
        reserve_tokens=state.preset.max_response + RESERVE,
        token_estimator=_Estimator(state.counter),
        message_overhead_tokens=state.counter.overhead,
        step=state.current_step or "plan_assembly",
        on_overflow=state.context.on_overflow,
    )
    return plan.replace(blocks=tuple(apply(plan.blocks, result)), trim_report=result.report)


class _Estimator:
    """Lets the generic trimmer count as the build does."""

    def __init__(self, counter: MessageCounter) -> None:
        self._counter = counter

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        return self._counter.text(text)


def _evictions(dropped: Sequence[Dropped]) -> Sequence[EvictionRecord]:
    """Records of what was left out, made on demand, because a long chat loses thousands of messages every turn."""
    return LazySequence(len(dropped), lambda place: _record(dropped[place]))


def _record(dropped: Dropped) -> EvictionRecord:
    return EvictionRecord(
        block_id=dropped.message.memo or dropped.title,
        token_count=dropped.tokens or 0,
        reason="budget_exceeded",
        budget_group=dropped.budget_group,
        source=dropped.message.source,
    )
