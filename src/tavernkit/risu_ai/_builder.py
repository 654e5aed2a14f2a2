"""Builds prompts as RisuAI does, and replays a chat: the request of every reply in it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import chain
from typing import Self, Unpack

from tavernkit._text.traced import given
from tavernkit._values import freeze_object
from tavernkit.cache._spans import ReplayedTurn, plan_spans
from tavernkit.errors import PipelineError
from tavernkit.prompt._block import Block
from tavernkit.prompt._builder import BaseBuilder, finished_plan
from tavernkit.prompt._context import DrawnNumbers, FixedClock
from tavernkit.prompt._inputs import GroupDecision
from tavernkit.prompt._pipeline import Pipeline
from tavernkit.prompt._plan import Plan
from tavernkit.prompt._source_mapping import TracedBuild, has_words_of, with_traced_texts
from tavernkit.risu_ai._budget import Dropped
from tavernkit.risu_ai._chat.chat_log import with_messages
from tavernkit.risu_ai._chat.groups import speakers
from tavernkit.risu_ai._context import RisuAIContext, RisuAIInputs
from tavernkit.risu_ai._objects import RisuChat, RisuMessage
from tavernkit.risu_ai._pipeline import PIPELINE
from tavernkit.risu_ai._plan import RisuPlan
from tavernkit.risu_ai._regex_scripts.runner import RememberedTexts
from tavernkit.risu_ai._sending.exchange import AsyncModel, Model, SendResult, drive, drive_async
from tavernkit.risu_ai._sending.send import Send
from tavernkit.risu_ai._services import Services
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai._steps.memory import LAST_MEMORY
from tavernkit.risu_ai.errors import MemoryFailedError
from tavernkit.stores._variables import VariablesOverlay


class Builder(BaseBuilder[RisuAIContext, RisuState]):
    """Builds the prompts of one character or group, user, preset and settings, turn after turn.

    >>> builder = Builder(character=card, user=User(name="Ann"), preset=preset)   # doctest: +SKIP
    >>> plan = builder.build(history=chat, message="Who lit the lamp?")           # doctest: +SKIP

    Takes every input of ``RisuAIInputs``; inputs of ``build()`` override the builder's own. Compiled
    texts, scanned books, script results and token counts are kept for the next turn.

    Args:
        pipeline: The steps of a build.
        services: Engines and their caches, to share them between builders; by default new ones.
        inputs: Inputs of every build.
    """

    context_class = RisuAIContext
    state_class = RisuState

    def __init__(
        self,
        *,
        pipeline: Pipeline[RisuState] = PIPELINE,
        services: Services | None = None,
        **inputs: Unpack[RisuAIInputs],
    ) -> None:
        self.services = services if services is not None else Services()
        super().__init__(pipeline, inputs)

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, services=Services())

    @property
    def inputs(self) -> RisuAIInputs:
        """The builder's own inputs."""
        return RisuAIInputs(**self._inputs)  # pyright: ignore[reportArgumentType]  # checked when they were given

    def make_context(self, **inputs: Unpack[RisuAIInputs]) -> RisuAIContext:
        """Make the frozen context of one build."""
        return self._context(inputs)

    def make_state(self, context: RisuAIContext) -> RisuState:
        """Make the workspace of one build."""
        if context.memory is not None:
            context = context.replace(memory=context.memory.remembering())
        return RisuState(context, self.services)

    def build(self, **inputs: Unpack[RisuAIInputs]) -> RisuPlan:
        """Build one prompt. In a group, the speaker is ``speaker``, else the first one that ``decide()`` chooses."""
        return self.run(self.make_context(**inputs))

    def run(self, context: RisuAIContext) -> RisuPlan:
        """Build from a ready context: the same context gives the same plan."""
        if context.owner.is_group and context.speaker is None:
            context = context.replace(speaker=next(iter(decide(context).activated), None))
        return self.run_state(self.make_state(context))

    def _trace(
        self,
        context: RisuAIContext,
        built: RisuAIContext,
        chat: RisuChat,
        numbers: DrawnNumbers | None,
        variables: VariablesOverlay,
        remembered: RememberedTexts,
        dropped: Sequence[Sequence[Dropped]],
        plan: Plan,
    ) -> TracedBuild:
        """Build a context again with traced texts; the application's models are not asked again.

        Messages of the chat that are unchanged blocks of the plan get their places afterwards, so most of them need not
        be built again: if the texts of a shortened chat match the plan, they are used. If text of untraced messages
        appears elsewhere, the whole chat is traced. Hooks see all of it; ``built`` is the context as they left it.
        """
        from tavernkit.risu_ai._source_texts import MessageTexts, has_own_chat, place_of, turn_inputs
        from tavernkit.risu_ai._sources import traced_context

        assert isinstance(plan, RisuPlan)
        known_texts = self.services.known_texts
        steady = has_own_chat(context, built)
        inputs = turn_inputs(built, plan, chat) if steady else None
        texts = MessageTexts(chat, context.message, plan, known_texts, known_texts.forms(inputs))
        known_texts.lines = texts.known

        def run(context: RisuAIContext) -> RisuPlan:
            state = RisuState(context, self.services.for_tracing())
            state.remembered = remembered
            return self.run_state(state)

        def build(kept: Sequence[int], wanted: Container[int]) -> RisuPlan:
            traced = traced_context(context, chat, numbers, variables.as_read(), kept, wanted, self.services.traced)
            try:
                return run(traced)
            except PipelineError as error:
                if not isinstance(error.__cause__, MemoryFailedError):
                    raise
                return run(traced.replace(memory=None))  # memory would make another request

        def has_lost_messages(blocks: Iterable[tuple[Block, str]]) -> bool:
            texts_of_others = [text for block, text in blocks if id(block) not in texts.whole and not texts.has(block)]
            return has_words_of(texts_of_others, lambda: [message.data for message in chat.messages])

        def unused(traced: Plan | None) -> Iterator[tuple[str, str]]:
            if plan.lore_result is not None and traced is not None and traced.lore_result is not None:
                reasons = {row.id: row.reason for row in plan.lore_result.rows() if not row.active}
                rows = traced.lore_result.rows()
                yield from ((row.content, reasons[row.id]) for row in rows if row.id in reasons)
            yield from texts.unused(plan, chain(*dropped))

        known = known_texts.find(inputs, texts.others) if inputs is not None else {}
        found = known_texts.without_build(plan, texts.others, known)
        if found is not None:
            return TracedBuild(plan, texts.of_block, texts.whole, texts.source_of, partial(unused, found[0]), found[1])
        kept = texts.kept(plan, known) if steady else range(len(chat.messages))
        traced = build(kept, texts.changed)
        placed = [(place_of(block, kept), block.content) for block in traced.blocks]
        same = with_traced_texts(plan, placed, texts.others, known)
        fresh = [(index, block) for index, block, _ in texts.others if id(block) not in known]
        if (
            same is not None
            and not has_lost_messages((block, same[index]) for index, block in fresh)
            and texts.learn_forms(same)
        ):
            if inputs is not None:
                known_texts.keep(inputs, traced, same, texts.others, known, texts.written.forms, given())
            return TracedBuild(plan, texts.of_block, texts.whole, texts.source_of, partial(unused, traced), same)
        every = range(len(chat.messages))
        if texts.forget_forms() or len(kept) < len(every):
            traced = build(every, texts.changed)
        if has_lost_messages((block, block.content) for block in traced.blocks):
            traced = build(every, every)
        return TracedBuild(traced, texts.of_block, unused=partial(unused, traced))

    def replace(self, **inputs: Unpack[RisuAIInputs]) -> Self:
        """Return a builder with some inputs changed; compiled data is shared."""
        return self._replaced(inputs)

    def decide(self, **inputs: Unpack[RisuAIInputs]) -> GroupDecision:
        """Decide who speaks next in a group, by its own rules: ``activated`` has the ids of its members in order."""
        return decide(self.make_context(**inputs))

    def run_state(self, state: RisuState) -> RisuPlan:
        """Run the pipeline on the caller's workspace."""
        context, chat = state.context, state.context.chat
        state.is_standard = self.pipeline is PIPELINE
        dropped: list[Sequence[Dropped]] = []
        self.pipeline.run(state)
        state.again = partial(
            self._trace, context, state.context, chat, state.numbers, state.variables, state.remembered, dropped
        )
        dropped += (state.left_out, state.dropped)
        state.plan = plan = finished_plan(state)
        assert isinstance(plan, RisuPlan)
        return plan

    def send(self, model: Model, **inputs: Unpack[RisuAIInputs]) -> SendResult:
        """Run a whole send: build, ask ``model`` (as often as RisuAI would), and add the reply to the chat.

        ``model`` gets a ``ModelRequest`` and returns the reply or an iterable of its pieces; it raises
        ``RequestFailedError`` if the provider refuses. In a group without a ``speaker``, everyone whose turn it is
        speaks.

        Args:
            model: Called with each request.
            inputs: Inputs of this send, which override the builder's.
        """
        return drive(Send(self, self.make_context(**inputs)).run(), model)

    async def send_async(self, model: AsyncModel, **inputs: Unpack[RisuAIInputs]) -> SendResult:
        """The same with a ``model`` that returns an awaitable or an asynchronous iterable of pieces.

        Args:
            model: Called with each request.
            inputs: Inputs of this send, which override the builder's.
        """
        return await drive_async(Send(self, self.make_context(**inputs)).run(), model)


def decide(context: RisuAIContext) -> GroupDecision:
    """Decide who speaks next; outside a group, the character does."""
    if not context.owner.is_group:
        return GroupDecision(activated=(context.owner.id,), generation_types=(context.generation_type,))
    chat = context.chat
    if context.message:
        chat = with_messages(chat, (*chat.messages, RisuMessage(role="user", data=context.message)))
    chosen = tuple(speakers(context.owner, context.members, chat, context.random_source))
    return GroupDecision(
        activated=chosen,
        generation_types=(context.generation_type,) * len(chosen),
        strategy="order" if context.owner.raw.get("orderByOrder") else "talkness",
        generation_type=context.generation_type,
        is_user_input=bool(context.message),
        seed=context.seed,
    )


def build(**inputs: Unpack[RisuAIInputs]) -> RisuPlan:
    """Build one prompt from the inputs of a ``Builder``; compiled data is kept between calls."""
    return _shared().build(**inputs)


@cache
def _shared() -> Builder:
    return Builder()


def replay(builder: Builder, **inputs: Unpack[RisuAIInputs]) -> Iterator[ReplayedTurn]:
    """Build the prompt of every reply of a chat, oldest first, as if the chat happened again.

    Variables carry over from turn to turn. The clock shows when the message before the reply was sent; every turn has
    its own seed.

    Args:
        builder: A builder whose inputs include the chat (``history``).
        inputs: Inputs that override the builder's own.
    """
    context = builder.make_context(**inputs)
    chat, variables = context.chat, context.variables
    kept = VariablesOverlay(variables) if variables is not None else None
    raw = chat.raw
    for number in _replies(chat):
        now = _sent(chat.messages[number - 1]) if number else None
        turn: RisuAIInputs = {
            **inputs,
            "history": replace(chat, messages=chat.messages[:number], raw=raw),
            "message": "",
            "generation_type": "normal",
            "variables": kept,
            "on_overflow": "return",
            "seed": f"{'' if context.seed is None else context.seed}:{number}",
        }
        if now is not None:
            turn["clock"] = FixedClock(now)
        plan = builder.build(**turn)
        yield ReplayedTurn(number, plan, plan_spans(plan), now)
        raw = freeze_object({**raw, **plan.memory_data, LAST_MEMORY: plan.last_memory})
        if kept is not None:
            plan.variables.apply(kept)


def _replies(chat: RisuChat) -> Iterator[int]:
    for number, message in enumerate(chat.messages):
        if message.role == "char" and (number or len(chat.messages) == 1):
            yield number
    if chat.messages and chat.messages[-1].role == "user":
        yield len(chat.messages)


def _sent(message: RisuMessage) -> datetime | None:
    if message.time is None:
        return None
    try:
        return datetime.fromtimestamp(message.time / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
