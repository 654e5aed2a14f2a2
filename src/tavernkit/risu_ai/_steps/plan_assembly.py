"""Makes the plan: a last check of the budget, then blocks; and reports what is not in the prompt.

That is what did not fit, and what nothing prints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tavernkit._values import LazySequence, counted
from tavernkit.budget._report import EvictionRecord, TrimReport
from tavernkit.budget._trimmer import apply, trim
from tavernkit.errors import MaxTokensExceededError
from tavernkit.prompt._block import Omission
from tavernkit.prompt._builder import finished_plan
from tavernkit.prompt._context import CACHE, REFERENCE
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.prompt._plan import Plan
from tavernkit.risu_ai._budget import (
    RESERVE,
    Dropped,
    MessageCounter,
    blank_removable,
    dropped_tokens,
    omissions_of,
)
from tavernkit.risu_ai._caching import cache_marks, moved_lore
from tavernkit.risu_ai._chat.chat_log import chat_id, greeting_number
from tavernkit.risu_ai._lorebook.activation import POINT_PREFIX
from tavernkit.risu_ai._lorebook.result import ActiveLore
from tavernkit.risu_ai._plan import RisuPlan, llm_options, make_blocks
from tavernkit.risu_ai._prompt_template.cards import AuthorNoteCard, ChatMLCard, PlainCard, SlotCard, TemplateCard
from tavernkit.risu_ai._prompt_template.lore_places import DEPTH, in_lorebook_slot, points_in
from tavernkit.risu_ai._prompt_template.slots import ORDER_NAMES, Slots
from tavernkit.risu_ai._requests.messages import RequestRules, with_bias
from tavernkit.risu_ai._requests.text_completion import TextRules
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai._triggers.build_triggers import edit_list


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


_CARDS = (("description", "description"), ("persona", "persona"), ("authornote", "author_note"), ("chat", "chats"))


def slot_omissions(slots: Slots, template: Sequence[TemplateCard] | None, order: Sequence[str]) -> Iterator[Omission]:
    """Slots that have a text and no place in the template or the order."""
    if template is None:
        for name, attribute in ORDER_NAMES.items():
            if name not in order and name != "postEverything" and _filled(slots, attribute):
                yield Omission("prompt", name, f"formatingOrder does not list {name}")
        return
    types = {card.type for card in template}
    for kind, attribute in _CARDS:
        if kind not in types and _filled(slots, attribute):
            yield Omission("prompt", kind, f"the prompt template has no {kind} card")
    if "chat" in types:
        hidden = (message for message in slots.chats if not message.printed and not message.blank)
        yield from omissions_of([Dropped(message, None, "no chat card of the template shows it") for message in hidden])
    if _filled(slots, "last_chat"):
        yield Omission("prompt", "start and historyend", "with a prompt template RisuAI prints no such trigger texts")


def prompt_omissions(state: RisuState) -> Iterator[Omission]:
    """Texts that authors and users may expect in the prompt, and that RisuAI does not look at."""
    preset, persona = state.preset, state.texts.context.persona
    if state.template is not None and state.fields.system_prompt:
        yield Omission("prompt", "system prompt", "with a prompt template the character's system prompt is not used")
    if state.template is None and preset.main_prompt is None:
        yield Omission("prompt", "main prompt", "the preset states none: RisuAI's own text is not part of this library")
    if state.template is None and preset.jailbreak and not state.context.settings.jailbreak_toggle:
        yield Omission("prompt", "jailbreak", "the jailbreak toggle is off")
    if preset.prompt_settings.assistant_prefill:
        yield Omission(
            "prompt", "assistant prefill", "RisuAI stores it and does not send it: use a last card with role bot"
        )
    if persona is not None and persona.prompt and not state.context.persona_prompt:
        reason = "the prompt of a bound persona is used only while there is a persona prompt in the settings"
        yield Omission("prompt", "persona", reason, persona.name)
    sent, cut = state.sent
    disabled = len(state.chat.messages) - len(sent)
    if disabled:
        yield Omission("history", "disabled", "disabled in the chat", counted(disabled, "message"))
    if cut and not state.in_group:
        yield Omission("history", "greeting", "a message of the chat disables everything before it", "greeting")


def lore_omissions(lore: Sequence[ActiveLore], template: Sequence[TemplateCard] | None) -> Iterator[Omission]:
    """Active lore whose place is not in the template. Without a template only the plain places exist."""
    cards = template or ()
    types = {card.type for card in cards}
    locations = _locations(cards)
    points = {name for card in cards for text in _texts(card) for name in points_in(text)}
    for entry in lore:
        reason = _why_not(entry, types, locations, points, templated=template is not None)
        if reason is not None:
            yield Omission("lore_entry", str(entry.index), f"active, but {reason}", entry.title, entry.tokens)


def _why_not(
    entry: ActiveLore,
    types: Collection[str],
    locations: Collection[str],
    points: Collection[str],
    *,
    templated: bool,
) -> str | None:
    if entry.inject is not None and not entry.pos:
        if entry.inject.location in locations:
            return None
        return f"no card takes what is injected at {entry.inject.location!r}"
    if in_lorebook_slot(entry) and templated and "lorebook" not in types:
        return "the prompt template has no lorebook card"
    if entry.pos == DEPTH and entry.depth < 0:
        return f"there is no depth {entry.depth:g}"
    if entry.pos.startswith(POINT_PREFIX):
        point = entry.pos.removeprefix(POINT_PREFIX)
        if point not in points:
            return f"no card has {{{{position::{point}}}}}"
    return None


def _locations(cards: Sequence[TemplateCard]) -> set[str]:
    found: set[str] = set()
    for card in cards:
        if isinstance(card, PlainCard):
            found.add(card.location)
        elif isinstance(card, (SlotCard, AuthorNoteCard)) and card.inner_format:
            found.add(card.type)
    return found


def _texts(card: TemplateCard) -> tuple[str, ...]:
    if isinstance(card, (PlainCard, ChatMLCard)):
        return (card.text,)
    return (card.inner_format,) if isinstance(card, (SlotCard, AuthorNoteCard)) else ()


def _filled(slots: Slots, attribute: str) -> bool:
    return any(not message.blank for message in getattr(slots, attribute))


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
        greeting_index=greeting_number(state.chat),
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
