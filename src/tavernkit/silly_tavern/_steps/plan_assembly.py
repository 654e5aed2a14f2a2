"""Assembles the plan within the budget."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from tavernkit._values import EMPTY_OBJECT, FrozenJson, FrozenObject, LRUCache, is_mapping
from tavernkit.prompt._block import Block, Omission
from tavernkit.prompt._context import CACHE, REFERENCE
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.silly_tavern._caching.frozen_lore import FrozenLine
from tavernkit.silly_tavern._caching.placing import cache_marks, history_cut, metadata_changes, moved_lore
from tavernkit.silly_tavern._caching.raw_texts import raw_texts
from tavernkit.silly_tavern._chat_completion.assembly import Assembled, assemble, placed
from tavernkit.silly_tavern._chat_completion.history_messages import HistoryCache, HistoryConverter
from tavernkit.silly_tavern._chat_completion.layout import Injected, MessageCollection, PlacedMessage
from tavernkit.silly_tavern._chat_completion.plan import (
    ChatPlan,
    RequestInput,
    logit_bias,
    page_input,
    request_fields,
    sampling_options,
    system_becomes_user,
)
from tavernkit.silly_tavern._limits import LONG_TEXT_CHARACTERS
from tavernkit.silly_tavern._macros.engine import left_over_macros
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._steps.prepare import group_names
from tavernkit.silly_tavern._token_counting.vocabularies import token_encoder
from tavernkit.silly_tavern.errors import UnconsumedMacroError
from tavernkit.silly_tavern.providers._chat.page import tools_supported

BlockCache = LRUCache[object, Block]


def make_blocks(
    placed: Sequence[tuple[MessageCollection, PlacedMessage]], cache: BlockCache | None = None
) -> list[Block]:
    """Make the blocks of messages, in order.

    Args:
        placed: The messages and their collections.
        cache: Blocks of plain chat messages that are written again in every turn.
    """
    seen: Counter[str] = Counter()
    blocks: list[Block] = []
    for collection, message in placed:
        identifier = message.identifier or collection.identifier
        seen[identifier] += 1
        block_id = identifier if seen[identifier] == 1 else f"{identifier}#{seen[identifier]}"
        block = message.block
        if block is None or block.id != block_id or block.slot != collection.identifier:
            message.block = block = _block(collection.identifier, message, block_id, cache)
        blocks.append(block)
    return blocks


def _block(slot: str, message: PlacedMessage, block_id: str, cache: BlockCache | None) -> Block:
    if cache is None or message.kept or type(message.content) is not str or not _cacheable(message):
        return _new_block(slot, message, block_id)
    described = message.source.get("name"), message.source.get("reason")
    key = (
        slot,
        block_id,
        message.role,
        message.content,
        message.name,
        message.history_index,
        message.tokens,
        described,
    )
    return cache.get_or_make(key, lambda: _new_block(slot, message, block_id))


def _cacheable(message: PlacedMessage) -> bool:
    plain = message.depth is None and not message.parts and not message.tool_calls and message.tool_call_id is None
    plain = plain and not message.apart
    return plain and message.group == "history" and len(message.content) <= LONG_TEXT_CHARACTERS


def _new_block(slot: str, message: PlacedMessage, block_id: str) -> Block:
    metadata: dict[str, FrozenJson] = {
        "source": message.source,
        "tokens": message.tokens,
        "identifier": message.identifier,
    }
    if message.bundle is not None:
        metadata["eviction_bundle"] = message.bundle
    if message.apart:
        metadata["apart"] = True
    in_chat = message.depth is not None
    return Block(
        role=message.role,
        content=message.content,
        id=block_id,
        name=message.name,
        attachments=message.parts[1:] if message.parts else None,
        message_metadata=_message_metadata(message) or None,
        slot=slot,
        removable=message.group != "system",
        insertion_point="in_chat" if in_chat else "relative",
        depth=message.depth or 0,
        order=message.order,
        token_budget_group=message.group,
        metadata=metadata,
    )


def _message_metadata(message: PlacedMessage) -> FrozenObject:
    if not message.tool_calls and message.tool_call_id is None:
        return EMPTY_OBJECT
    found: dict[str, FrozenJson] = {}
    if message.tool_calls:
        found["tool_calls"] = list(message.tool_calls)
    if message.tool_call_id is not None:
        found["tool_call_id"] = message.tool_call_id
    if message.reasoning:
        found["reasoning"] = message.reasoning
    return found


class PlanAssemblyStep(Step[SillyTavernState, NoConfig]):
    """Runs SillyTavern's budgeted assembly over the layout and makes the plan, with the request's fields.

    With the ``reference`` strategy the budget is applied here, as in SillyTavern; with ``cache`` too, but the history
    is cut in larger steps; with others, everything is placed and the trimming step decides. Reads ``layout``
    and ``context``; writes ``assembled``, ``blocks``, ``plan`` and ``llm_options``.
    """

    name = "plan_assembly"

    def before(self, state: SillyTavernState) -> None:
        """Assemble."""
        _plan_chat(state)
        put_greeting(state)
        if state.context.strict:
            _refuse_left_over_macros(state)


def _refuse_left_over_macros(state: SillyTavernState) -> None:
    """Raise if macros are left in the finished texts. Checked only here: many texts are expanded twice."""
    for block in state.blocks:
        left = [macro for _, macro in left_over_macros(block.content)]
        if left:
            source = block.source
            title = str(source.get("title") or block.id) if is_mapping(source) else block.id
            raise UnconsumedMacroError(f"{left[0]} is left in {title}", remaining_macros=left)


def assemble_chat(state: SillyTavernState) -> Assembled:
    """Return what is sent of a complete layout, within the budget."""
    context, layout, counter = state.context, state.need_layout(), state.counter
    preset = context.active_preset
    converter = HistoryConverter(
        preset=preset,
        counter=counter,
        expand=state.macros,
        user_name=context.user_name,
        in_group=context.group is not None,
        core=state.core,
        media_display=context.settings.power_user.media_display,
        measure=context.measure_media,
        model_list=context.model_list,
        resolve=_media(state),
        with_tools=tools_supported(preset),
        cache=_history_cache(state),
        leaves=state.macros.leaves,
    )
    in_assembly = context.strategy in (REFERENCE, CACHE)
    budget = context.max_context - context.max_response if in_assembly else math.inf
    return assemble(layout, budget, counter, converter, history_cut(state))


def _plan_chat(state: SillyTavernState) -> None:
    context, counter = state.context, state.counter
    preset, power_user = context.active_preset, context.settings.power_user
    assembled = assemble_chat(state)
    state.assembled = assembled
    state.blocks = make_blocks(placed(assembled), state.services.blocks)
    page = page_input(
        preset,
        RequestInput(
            generation_type=context.prompt_type,
            user_name=context.user_name,
            character_name=context.character_name,
            group_names=group_names(state),
            max_tokens=context.max_response,
            tools=context.tools,
            expand=state.macros,
            power_user=power_user,
            warn=state.warn,
            logit_bias=logit_bias(
                context.settings.source,
                preset,
                token_encoder(counter.rule.vocabulary, context.tokenizers),
                state.warn,
            ),
        ),
    )
    asked = state.llm_options
    state.llm_options = {**request_fields(preset, page), **asked}
    sent_lore = _sent_lore(state)
    counts = {collection.identifier: tokens for collection in assembled.slots if (tokens := collection.tokens)}
    state.plan = ChatPlan(
        blocks=state.blocks,
        outlets=state.outlets,
        lore_result=state.lore_result,
        llm_options=state.llm_options,  # pyright: ignore[reportArgumentType]  # frozen by the plan
        counting_note=state.counting_note,
        sampling={**sampling_options(preset, page, state.warn), **asked},  # pyright: ignore[reportArgumentType]  # frozen by the plan
        preset=preset,
        page=page,
        count_tokens=lambda text: max(counter.text(text), 0),
        raw_texts=partial(raw_texts, context, state.lore_result),
        chat=state.turn.chat,
        vector_calls=tuple(state.vector_calls),
        vector_texts=tuple(state.vector_texts),
        squash=preset.squash_system_messages and not context.dry_run,  # SillyTavern's token counter shows them apart
        system_as_user=system_becomes_user(preset),
        token_counts=counts,
        budget_left=int(assembled.slots.budget) if math.isfinite(assembled.slots.budget) else 0,
        overflow=str(assembled.overflow) if assembled.overflow is not None else None,
        overridden_prompts=tuple(state.prompt_entries.overridden),
        moved=(*state.moved, *moved_lore((line, _tokens(block)) for line, block in sent_lore)),
        metadata_changes=metadata_changes(context, assembled.cut, [line for line, _ in sent_lore]),
        cache_marks=cache_marks(context),
        timed_world_info=state.lore_result.timed_state if state.lore_result is not None else EMPTY_OBJECT,
        continued_text=state.continued_text,
        chat_messages_sent=sum([block.role in ("user", "assistant") for block in state.blocks]),
        macro_memory=state.memory,
    )
    if state.reports:
        _expand_for_inspector(state)


def _history_cache(state: SillyTavernState) -> HistoryCache | None:
    """Return cached messages of earlier turns with the same names and counter."""
    context = state.context
    if context.token_estimator is not None:  # it may count differently each time
        return None
    names = context.active_preset.names_behavior, context.user_name, context.group is not None
    return state.services.history_of(state.counter, *names)


def _expand_for_inspector(state: SillyTavernState) -> None:
    """SillyTavern expands every registered text again for its prompt inspector: counters in them increase again."""
    for prompt in state.extensions:
        state.macros(prompt.value)


def _sent_lore(state: SillyTavernState) -> list[tuple[FrozenLine, Block]]:
    """Return lore that is in the prompt as a line of the history."""
    if not state.frozen_lines:
        return []
    injected = [each for each in state.need_layout().history if isinstance(each, Injected)]
    lines = {(line.id, line.after): line for each in injected if (line := each.frozen)}
    found: list[tuple[FrozenLine, Block]] = []
    for block in state.blocks:
        source = block.source
        after = source.get("after") if is_mapping(source) else None
        line = lines.get((str(source.get("id")), after)) if is_mapping(source) and isinstance(after, int) else None
        if line is not None:
            found.append((line, block))
    return found


def _tokens(block: Block) -> int | None:
    tokens = block.metadata.get("tokens")
    return tokens if isinstance(tokens, int) else None


def _media(state: SillyTavernState) -> Callable[[str], str]:
    """Return a function that gives the ``data:`` URL of a file in the folder."""
    media = state.context.media
    if media is None:
        return str

    def resolve(url: str) -> str:
        found = url if url.startswith(("data:", "http:", "https:")) else media.get(url)
        if found is None:
            state.omit(Omission("attachment", url, "the file is not in the folder"))
            state.warn(f"the attached file {url!r} is left out, it cannot be found")
        return found or ""

    return resolve


def put_greeting(state: SillyTavernState) -> None:
    """Put the requested greeting on the plan."""
    index, card = state.context.greeting, state.context.card
    if index is None or card is None or state.plan is None:
        return
    greetings = (card.first_mes, *card.alternate_greetings)
    if not 0 <= index < len(greetings):
        state.warn(f"there is no greeting {index}: the card has 0 to {len(greetings) - 1}")
        return
    state.plan = state.plan.replace(greeting=state.macros(greetings[index]), greeting_index=index)
