"""Builds prompts, for chat completion and text completion."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Self, Unpack

from tavernkit._text.traced import given
from tavernkit.errors import log_warning
from tavernkit.prompt._block import Block
from tavernkit.prompt._builder import BaseBuilder, finished_plan
from tavernkit.prompt._context import DrawnNumbers
from tavernkit.prompt._inputs import GroupDecision
from tavernkit.prompt._pipeline import Pipeline
from tavernkit.prompt._plan import Plan
from tavernkit.prompt._source_mapping import TracedBuild, has_words_of, with_traced_texts
from tavernkit.prompt._steady_texts import is_independent
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat_completion.plan import ChatPlan
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._group_activation import decide, with_speaker
from tavernkit.silly_tavern._inputs import SillyTavernInputs
from tavernkit.silly_tavern._pipeline import CHAT_PIPELINE, TEXT_PIPELINE, TRACED_PIPELINES
from tavernkit.silly_tavern._scripts.prompt_scripts import ChosenScripts
from tavernkit.silly_tavern._services import Services
from tavernkit.silly_tavern._state import Half, SillyTavernState
from tavernkit.silly_tavern._world_info.result import WorldInfoResult
from tavernkit.stores._variables import VariablesOverlay


class Builder(BaseBuilder[SillyTavernContext, SillyTavernState]):
    """Builds the prompts of one character, user, preset and set of books, turn after turn.

    >>> builder = Builder(character=card, user=User(name="Ann"), preset=preset, books=[book])  # doctest: +SKIP
    >>> plan = builder.build(history=chat, message="Who lit the lamp?")                        # doctest: +SKIP

    Takes every input of ``SillyTavernInputs``; inputs of ``build()`` override the builder's own.
    Compiled books, parsed macros and token counts are kept for the next turn. With ``dialect="text"`` the plan is a
    ``TextPlan``: one prompt text and its stop strings. Without a ``pipeline`` of your own,
    ``CHAT_PIPELINE`` or ``TEXT_PIPELINE`` runs.

    Args:
        pipeline: The steps of a build.
        services: Engines and their caches, to share them between builders; by default new ones.
        inputs: Inputs of every build.
    """

    context_class = SillyTavernContext
    state_class = SillyTavernState

    def __init__(
        self,
        *,
        pipeline: Pipeline[SillyTavernState] | None = None,
        services: Services | None = None,
        **inputs: Unpack[SillyTavernInputs],
    ) -> None:
        self.services = services if services is not None else Services()
        self._own_pipeline = pipeline is not None
        super().__init__(pipeline or CHAT_PIPELINE, inputs)

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, services=Services())

    def make_context(self, **inputs: Unpack[SillyTavernInputs]) -> SillyTavernContext:
        """Make the frozen context of one build."""
        return self._context(inputs)

    def make_state(self, context: SillyTavernContext) -> SillyTavernState:
        """Make the workspace of one build."""
        return SillyTavernState(context, self.services)

    def build(self, **inputs: Unpack[SillyTavernInputs]) -> ChatPlan:
        """Build one prompt. In a group, the speaker is ``speaker``, else the first one that ``decide()`` chooses."""
        return self.run(self.make_context(**inputs))

    def run(self, context: SillyTavernContext) -> ChatPlan:
        """Build from a ready context: the same context gives the same plan."""
        mismatches: list[str] = []
        if context.group is not None:
            context = with_speaker(context, mismatches.append)
        state = self.make_state(context)
        given, lines = state.context, tuple(context.log.lines)
        for mismatch in mismatches:
            state.warn(mismatch)
        text = context.text_completion and not self._own_pipeline
        (TEXT_PIPELINE if text else self.pipeline).run(state)
        state.again = partial(self._trace, given, state.context, lines, state.numbers, state.variables)
        plan = finished_plan(state)
        assert isinstance(plan, ChatPlan)
        return plan

    def _trace(
        self,
        context: SillyTavernContext,
        built: SillyTavernContext,
        lines: Sequence[ChatMessage],
        numbers: DrawnNumbers | None,
        variables: VariablesOverlay,
        plan: Plan,
    ) -> TracedBuild:
        """Build a context again with traced texts.

        Lines of the chat that are unchanged messages of the plan get their places afterwards, so most of them need not
        be built again: if the texts of a shortened chat match the plan, they are used. If text of untraced lines
        appears elsewhere, the whole chat is traced. Hooks see all of it; ``built`` is the context as they left it.
        """
        from tavernkit.silly_tavern._placed_texts import placed_texts
        from tavernkit.silly_tavern._source_texts import LineTexts, has_own_chat, turn_inputs
        from tavernkit.silly_tavern._sources import EntryTexts, traced_context

        assert isinstance(plan, ChatPlan)
        known_texts = self.services.known_texts
        text = context.text_completion and not self._own_pipeline
        steady = has_own_chat(context, built)
        inputs = turn_inputs(built, plan, lines) if steady else None
        texts = LineTexts(
            context,
            built,
            lines,
            plan,
            known_texts,
            known_texts.forms(inputs),
            self._scripts_of_lines(built),
            same=known_texts.has(inputs),
        )
        entries = EntryTexts(context, self.services)
        known_texts.lines = texts.known

        def run(
            kept: Sequence[int],
            wanted: Container[int],
            known: Container[object] = (),
            half: Half | None = None,
            lore: WorldInfoResult | None = None,
            *,
            whole: bool = False,
        ) -> SillyTavernState:
            copies = self.services.traced
            traced = traced_context(context, lines, kept, wanted, numbers, variables.as_read(), copies, known)
            state = SillyTavernState(traced, self.services)
            state.read_entry, state.reports, state.half, state.lore_result = entries, False, half, lore
            # Hooks are not called a second time for a plan if the texts cannot be used.
            if whole or not steady or self._own_pipeline or (half is None and context.hooks is not None):
                (TEXT_PIPELINE if text else self.pipeline).run(state)
            else:
                TRACED_PIPELINES[half, text].run(state)
            return state

        def unused() -> Iterator[tuple[str, str]]:
            if isinstance(plan.lore_result, WorldInfoResult):
                yield from ((entries(one.entry), one.text) for one in plan.lore_result.explanations if not one.active)
            yield from texts.unused(plan)

        def has_lost_lines(blocks: Iterable[tuple[Block, str]]) -> bool:
            texts_of_others = [text for block, text in blocks if id(block) not in texts.whole and not texts.has(block)]
            return has_words_of(texts_of_others, texts.words)

        known = known_texts.find(inputs, texts.steady) if inputs is not None else {}
        found = known_texts.without_build(plan, texts.others, known)
        if found is not None:
            texts.repeat_scripts(found[2])
            return TracedBuild(plan, texts.of_block, texts.whole, texts.source_of, unused, found[1])
        kept = texts.kept(built, plan, known) if steady else range(len(lines))
        slots = texts.known_slots(known)
        fresh = [(index, block) for index, block, _ in texts.others if id(block) not in known]
        half = texts.half(built, known) if known and not self._own_pipeline else None
        lore = texts.known_lore(built, plan, known, half)
        traced = run(kept, texts.changed, slots, half, lore)
        same = with_traced_texts(plan, placed_texts(traced, kept), texts.others, known)
        if half is not None and (
            same is None
            # The chat may depend on the story string, which is written before it, and both on the scan for lore.
            or ((half == "chat" or lore is not None) and not all(is_independent(same[index]) for index, _ in fresh))
        ):
            half = None
            traced = run(kept, texts.changed, slots)
            same = with_traced_texts(plan, placed_texts(traced, kept), texts.others, known)
        if (
            same is not None
            and not has_lost_lines((block, same[index]) for index, block in fresh)
            and texts.learn_forms(same)
        ):
            replay = traced.scripts.replay if traced.scripts is not None else None
            texts.repeat_scripts(replay)
            if inputs is not None:
                known_texts.keep(inputs, None, same, texts.steady, known, texts.written.forms, given(), replay)
            return TracedBuild(plan, texts.of_block, texts.whole, texts.source_of, unused, same)
        every = range(len(lines))
        if texts.forget_forms() or slots or traced.plan is None or len(kept) < len(lines):
            traced = run(every, texts.changed, whole=True)
        again = finished_plan(traced)
        texts.repeat_scripts(traced.scripts.replay if traced.scripts is not None else None)
        if has_lost_lines((block, block.content) for block in again.blocks):
            again = finished_plan(run(every, every, whole=True))
        return TracedBuild(again, texts.of_block, unused=unused)

    def _scripts_of_lines(self, context: SillyTavernContext) -> ChosenScripts | None:
        """Return the regex scripts whose results for lines may be used; vectors may have texts of these elsewhere."""
        scripts = context.regex_scripts
        if scripts is None or not scripts.active or context.vectors is not None:
            return None
        return ChosenScripts(scripts, (context.user_name, context.character_name), self.services.scripts)

    def with_pipeline(self, pipeline: Pipeline[SillyTavernState]) -> Self:
        """Return a builder that runs another pipeline, for both chat and text completion."""
        twin = super().with_pipeline(pipeline)
        vars(twin).update(_own_pipeline=True)
        return twin

    def replace(self, **inputs: Unpack[SillyTavernInputs]) -> Self:
        """Return a builder with some inputs changed; compiled data is shared."""
        return self._replaced(inputs)

    def decide(self, **inputs: Unpack[SillyTavernInputs]) -> GroupDecision:
        """Decide who speaks next in a group: the application's decision if there is one, else by the group's rules."""
        return decide(self.make_context(**inputs), log_warning)


def build(**inputs: Unpack[SillyTavernInputs]) -> ChatPlan:
    """Build one prompt from the inputs of a ``Builder``; compiled data is kept between calls."""
    return _shared().build(**inputs)


@cache
def _shared() -> Builder:
    return Builder()
