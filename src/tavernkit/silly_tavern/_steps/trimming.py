"""Reports what did not fit into a chat or text prompt; with a generic strategy, decides it."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._values import LazySequence, counted
from tavernkit.budget._report import EvictionRecord, TrimReport
from tavernkit.budget._trimmer import apply, trim
from tavernkit.errors import MaxTokensExceededError
from tavernkit.prompt._block import Omission
from tavernkit.prompt._builder import finished_plan
from tavernkit.prompt._context import CACHE, REFERENCE
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.prompt._plan import Plan
from tavernkit.silly_tavern._chat.core_chat import CoreMessage, role_of
from tavernkit.silly_tavern._chat_completion.assembly import Assembled, LeftOut
from tavernkit.silly_tavern._chat_completion.history_messages import injected_source
from tavernkit.silly_tavern._chat_completion.layout import BudgetOverflowError, HistoryEntry, Injected, PlacedMessage
from tavernkit.silly_tavern._chat_completion.prompt_collection import CHAT_HISTORY
from tavernkit.silly_tavern._provenance import message_source, title_of
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._text_completion.assembly import AssembledText
from tavernkit.silly_tavern._text_completion.plan import TextPlan
from tavernkit.silly_tavern._token_counting.messages import CountingEstimator, MessageCounter, TextCounter


def evictions(
    tried: Sequence[EvictionRecord], unreached: Sequence[HistoryEntry], counter: MessageCounter
) -> Sequence[EvictionRecord]:
    """Return records of what was left out: first what was tried, then older history, oldest message first.

    A long chat leaves out thousands of messages every turn, so their records are made, and their tokens counted, on
    demand. Their macros never ran, so their unexpanded texts are counted.
    """

    def record(place: int) -> EvictionRecord:
        number = place - len(tried)
        return tried[place] if number < 0 else _unreached(unreached[number], number, counter)

    return LazySequence(len(tried) + len(unreached), record)


def _unreached(entry: HistoryEntry, number: int, counter: MessageCounter) -> EvictionRecord:
    if isinstance(entry, Injected):
        role, text, source = entry.role, entry.content, injected_source(entry)
    else:
        line = entry.line
        role, text, source = (
            role_of(line),
            entry.text,
            message_source("compilation", entry.index, line.name, additions=entry.additions),
        )
    return EvictionRecord(
        block_id=f"{CHAT_HISTORY}-{number + 1}",
        token_count=counter.message(role, text),
        reason="budget_exceeded",
        budget_group="history",
        slot=CHAT_HISTORY,
        source=source,
    )


_OCCASIONAL = frozenset({"impersonate", "quietPrompt", "groupNudge", "bias"})
"""Prompts that are in every collection but in few plans."""


class TrimmingStep(Step[SillyTavernState, NoConfig]):
    """Reports what the budget left out, and refuses a prompt without its required parts.

    With the ``reference`` strategy the assembly has decided; this step reports it. With ``group_order`` or
    ``priority`` the generic trimmer decides here. Mandatory content that does not fit, and a missing latest user
    message raise ``MaxTokensExceededError`` with the plan as its ``partial``, unless ``on_overflow`` is ``return``.
    Reads ``plan``, ``assembled`` and ``context``; writes ``plan`` and ``trim_report``.
    """

    name = "trimming"

    def before(self, state: SillyTavernState) -> None:
        """Report or trim."""
        self._trim_messages(state)
        count_trimmed(state)

    def _trim_messages(self, state: SillyTavernState) -> None:
        if state.plan is None or state.assembled is None:
            return
        if state.context.strategy in (REFERENCE, CACHE):
            if not state.reports:
                return
            report = _reference_report(state, state.assembled)
            state.plan = state.plan.replace(trim_report=report)
            state.trim_report = report
            _refuse_overflow(state, state.assembled, state.plan)
            _refuse_lost_user_message(state, state.assembled, state.plan)
        else:
            self._trim(state, state.plan)

    def _trim(self, state: SillyTavernState, plan: Plan) -> None:
        context = state.context
        result = trim(
            plan.blocks,
            strategy=context.strategy,
            max_tokens=context.max_context,
            reserve_tokens=context.max_response,
            token_estimator=CountingEstimator(state.counter.text),
            message_overhead_tokens=state.counter.rule.overhead,
            step=self.name,
            on_overflow=context.on_overflow,
        )
        state.plan = plan.replace(blocks=tuple(apply(plan.blocks, result)), trim_report=result.report)
        state.trim_report = result.report


def _warn_of_trimmed_history(state: SillyTavernState, report: TrimReport) -> None:
    """Warn about omitted chat messages, in strict mode only, because a long chat loses some in every prompt."""
    lost = sum(record.budget_group == "history" for record in report.evictions)
    if lost:
        state.warn(f"{lost} messages of the chat do not fit the token budget of {report.budget_tokens} tokens")


def count_trimmed(state: SillyTavernState) -> None:
    """Put the numbers of the report into the trace."""
    report = state.trim_report
    if report is not None:
        state.stat("budget_tokens", report.budget_tokens)
        state.stat("initial_tokens", report.initial_tokens)
        state.stat("final_tokens", report.final_tokens)
        state.stat("eviction_count", len(report.evictions))
        if state.context.strict:
            _warn_of_trimmed_history(state, report)


def _reference_report(state: SillyTavernState, assembled: Assembled) -> TrimReport:
    """The report of the assembly; ``initial_tokens`` counts only what was tried."""
    records: list[EvictionRecord] = []
    for left_out in assembled.left_out:
        records += [_record(message, left_out) for message in left_out.messages]
        _report_left_out(state, left_out)
    unreached = assembled.unreached
    if unreached:
        reason = "older than the first message that does not fit the token budget"
        if assembled.cut is not None:
            reason = f"older than message #{assembled.cut}, where the history was cut so that prompts begin alike"
        span = f"{CHAT_HISTORY}-1 to {CHAT_HISTORY}-{len(unreached)}"
        state.omit(Omission("history", span, reason, counted(len(unreached), "message")))
    first = len(state.examples) - len(assembled.unreached_examples)
    for number, block in enumerate(assembled.unreached_examples, start=first):
        reason = "comes after an example that does not fit"
        state.omit(Omission("example", block.id, reason, title_of(block.source("compilation", number))))
    for collection in assembled.slots.overwritten:
        for message in collection.messages:
            reason = "the example dialogue took its place, as it does in SillyTavern"
            identifier, title = message.identifier or collection.identifier, title_of(message.source)
            state.omit(Omission("history", identifier, reason, title, message.tokens))
            state.warn(f"{message.content!r:.60} is lost: {reason}; put another prompt after the examples")
    final = sum(collection.tokens for collection in assembled.slots)
    return TrimReport(
        strategy=state.context.strategy,
        budget_tokens=state.context.max_context - state.context.max_response,
        initial_tokens=final + sum(record.token_count for record in records),
        final_tokens=final,
        evictions=evictions(records, unreached, state.counter),
    )


def _record(message: PlacedMessage, left_out: LeftOut) -> EvictionRecord:
    return EvictionRecord(
        block_id=message.identifier or "",
        token_count=message.tokens,
        reason="group_overflow" if left_out.bundled else "budget_exceeded",
        budget_group=message.group,
        source=message.source,
    )


def _report_left_out(state: SillyTavernState, left_out: LeftOut) -> None:
    first = left_out.messages[0]
    kind = "example" if first.group == "examples" else "history"
    tokens = sum(message.tokens for message in left_out.messages)
    # The first message of an example is the line that announces it.
    title = title_of(left_out.messages[-1 if kind == "example" else 0].source)
    state.omit(Omission(kind, left_out.messages[-1].identifier or kind, left_out.reason, title, tokens))


def _refuse_overflow(state: SillyTavernState, assembled: Assembled, plan: Plan) -> None:
    overflow = assembled.overflow
    if overflow is None:
        return
    _report_unplaced(state, assembled, overflow)
    context = state.context
    limit = context.max_context - context.max_response
    _refuse(state, limit - overflow.budget + overflow.tokens, f"mandatory prompts do not fit: {overflow}", plan)


def _report_unplaced(state: SillyTavernState, assembled: Assembled, overflow: BudgetOverflowError) -> None:
    """Report the prompts that were not placed because the assembly ended early."""
    placed = {message.identifier for collection in assembled.slots for message in collection.messages}
    for prompt in state.prompt_entries:
        if not prompt.content or prompt.in_chat or prompt.identifier in placed or prompt.identifier in _OCCASIONAL:
            continue
        if prompt.identifier == overflow.identifier:
            reason = "does not fit the token budget; the assembly ended here"
        elif state.prompt_entries.disabled(prompt.identifier):
            reason = "switched off in the prompt list"
        else:
            reason = f"the assembly ended before it, at {overflow.title}"
        state.omit(
            Omission("prompt", prompt.identifier, reason, str(prompt.source.get("name") or title_of(prompt.source)))
        )
    if assembled.slots.get(CHAT_HISTORY) is None and CHAT_HISTORY in state.prompt_entries:
        reason = f"the assembly ended before the chat, at {overflow.title}"
        state.omit(Omission("history", CHAT_HISTORY, reason, counted(len(state.core), "message")))


def _refuse_lost_user_message(state: SillyTavernState, assembled: Assembled, plan: Plan) -> None:
    """Raise if the latest user message was too large: SillyTavern would silently drop it."""
    latest = next((message for message in reversed(state.core) if message.line.is_user), None)
    if assembled.overflow is not None or latest is None:
        return
    lost = [message for left_out in assembled.left_out for message in left_out.messages]
    tried = any(message.history_index == latest.index for message in lost)
    newest = next((entry for entry in reversed(assembled.unreached) if not isinstance(entry, Injected)), None)
    unreached = newest is not None and newest.index >= latest.index
    if not tried and not unreached:
        return
    report = state.trim_report
    needed = sum(message.tokens for message in lost) + (report.final_tokens if report is not None else 0)
    _refuse(state, needed, f"the latest user message ({latest.text!r:.40}) does not fit", plan)


def _refuse(state: SillyTavernState, needed: int, message: str, plan: Plan) -> None:
    context = state.context
    if context.on_overflow == "return":
        state.warn(f"{message}; the prompt is what SillyTavern would send")
        return
    state.plan = plan
    raise MaxTokensExceededError(
        estimated_tokens=needed,
        max_tokens=context.max_context,
        reserve_tokens=context.max_response,
        step="trimming",
        partial=finished_plan(state),
    )


def trim_text(state: SillyTavernState) -> None:
    """Report what the assembly left out; with a generic strategy, leave it out here."""
    plan, assembled = state.plan, state.assembled_text
    if not isinstance(plan, TextPlan) or assembled is None:
        return
    if state.context.strategy in (REFERENCE, CACHE):
        if not state.reports:
            return
        report = _text_report(state, plan, assembled)
        state.trim_report, state.plan = report, plan.replace(trim_report=report)
        _report_missing_text(state, assembled)
    else:
        _trim_text_plan(state, plan)


def _trim_text_plan(state: SillyTavernState, plan: TextPlan) -> None:
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


def _text_report(state: SillyTavernState, plan: TextPlan, assembled: AssembledText) -> TrimReport:
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
        evictions=_text_evictions(assembled, counter),
    )


def _report_missing_text(state: SillyTavernState, assembled: AssembledText) -> None:
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
        state.omit(Omission("history", span, reason, counted(len(chat), "message")))
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


def _text_evictions(assembled: AssembledText, counter: TextCounter) -> Sequence[EvictionRecord]:
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
