"""The end of a text build: the budget, the final text, and the plan."""

from __future__ import annotations

import math
from functools import partial

from tavernkit._text.js_values import trim, trim_start
from tavernkit._values import EMPTY_OBJECT, FrozenJson, FrozenObject, freeze_object, is_mapping
from tavernkit.prompt._context import CACHE, REFERENCE, TAIL
from tavernkit.silly_tavern._caching.placing import history_cut, metadata_changes, moved_lore
from tavernkit.silly_tavern._caching.raw_texts import raw_texts
from tavernkit.silly_tavern._caching.text_placing import role_names
from tavernkit.silly_tavern._chat.output_cleanup import clean_up
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._provenance import TITLES, source
from tavernkit.silly_tavern._reply_clean_up import reply_clean_up, reply_stop_strings
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._text_completion.assembly import AssembledText, TextLayout, assemble
from tavernkit.silly_tavern._text_completion.plan import (
    SETTINGS_OF,
    Origin,
    Segment,
    TextPlan,
    blocks_of,
    normalised,
    rendered,
    text_of,
)
from tavernkit.silly_tavern._token_counting.choice import TOKENIZERS, chosen_tokenizer
from tavernkit.silly_tavern._token_counting.vocabularies import ESTIMATE, token_encoder
from tavernkit.silly_tavern.providers._text.given import TextInput
from tavernkit.silly_tavern.providers._text.own import ALL_FEATURES
from tavernkit.silly_tavern.providers._text.page import TEXT_BACKENDS

GUIDANCE = Origin(
    "guidance",
    "system",
    source("plan_assembly", "chat metadata", "cfg_prompt", "CFG Prompt", "classifier-free guidance of the chat"),
    "guidance",
)
BIAS = Origin(
    "bias",
    "assistant",
    source("plan_assembly", "bias", "bias", TITLES["bias"], "the reply begins with it"),
    "bias",
)


def assemble_text(state: SillyTavernState) -> tuple[AssembledText, list[Segment]]:
    """Return what is sent of a draft, within the budget, and its finished pieces."""
    context, draft = state.context, state.draft
    limit = draft.limit if context.strategy in (REFERENCE, CACHE) else math.inf
    assembled = assemble(_layout(state), limit, state.text_counter)
    guidance = draft.guidance
    return assembled, _finished(state, assembled, guidance.positive if guidance.in_use else "")


def plan_text(state: SillyTavernState) -> None:
    """Apply the budget, finish the text and make the plan."""
    context, draft, counter = state.context, state.draft, state.text_counter
    assembled, segments = assemble_text(state)
    state.assembled_text = assembled
    if draft.rules is not None and draft.items is not None:
        # A copy, because reading the report later writes messages that were left out.
        state.services.written.put(draft.rules, dict(draft.items.made))
    guidance = draft.guidance
    negative = text_of(_finished(state, assembled, guidance.negative)) if guidance.in_use else ""
    state.blocks = blocks_of(segments)
    state.llm_options = {
        "max_new_tokens": context.max_response,
        "max_tokens": context.max_response,
        "truncation_length": context.max_context,
        **state.llm_options,
    }
    stops = reply_stop_strings(state)
    state.plan = TextPlan(
        blocks=state.blocks,
        outlets=state.outlets,
        lore_result=state.lore_result,
        llm_options=state.llm_options,  # pyright: ignore[reportArgumentType]  # frozen by the plan
        counting_note=state.counting_note,
        sampling=_sampling(state),
        backend=_backend(context.settings),
        text_settings=freeze_object({key: state.context.settings.source.get(key, {}) for key in SETTINGS}),
        text_input=_text_input(state, stops),
        count_tokens=counter.text,
        raw_texts=partial(raw_texts, context, state.lore_result),
        moved=(*state.moved, *moved_lore((line, counter.text(line.text)) for line in assembled.frozen)),
        metadata_changes=metadata_changes(context, assembled.cut, assembled.frozen),
        rendered=rendered(state.blocks, stops),
        chat=state.turn.chat,
        vector_calls=tuple(state.vector_calls),
        vector_texts=tuple(state.vector_texts),
        timed_world_info=state.lore_result.timed_state if state.lore_result is not None else EMPTY_OBJECT,
        continued_text=state.continued_text,
        chat_messages_sent=_chat_messages(state, assembled),
        macro_memory=state.memory,
        negative_prompt=negative,
        guidance_scale=guidance.scale,
        clean_up=partial(clean_up, options=reply_clean_up(state, stops)),
    )


_SAMPLERS = {
    "temp": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "rep_pen": "repetition_penalty",
    "freq_pen": "frequency_penalty",
    "presence_pen": "presence_penalty",
}
"""Text completion's samplers that most models accept, with OpenAI's names."""


SETTINGS = ("textgenerationwebui_settings", *SETTINGS_OF.values())
"""Keys of the settings file with sampler settings."""
_APIS = {"novel": "novelai", "kobold": "kobold"}


def _backend(settings: Settings) -> str:
    """Return the backend of the settings; the Horde's requests are unknown, so its bodies are those of ``ooba``."""
    found = settings.text_backend
    kind = _APIS.get(found.main_api, found.type)
    return kind if kind in TEXT_BACKENDS else "ooba"


def _text_input(state: SillyTavernState, stops: list[str]) -> TextInput:
    """Return the inputs of a request besides the sampler settings and the finished prompt."""
    context = state.context
    power_user = context.settings.power_user
    tokenizer = chosen_tokenizer(power_user.tokenizer, context.settings.text_backend)
    return TextInput(
        prompt="",
        max_tokens=context.max_response,
        max_context=context.max_context,
        stop_strings=tuple(stops),
        generation_type=context.prompt_type,
        token_probabilities=power_user.request_token_probabilities,
        banned_words=tuple(state.memory.banned_words),
        features=ALL_FEATURES,
        expand=state.macros,
        tokenize=token_encoder(TOKENIZERS.get(tokenizer, ESTIMATE), context.tokenizers),
        warn=state.warn,
    )


def _text_settings(state: SillyTavernState) -> FrozenObject:
    found = state.context.settings.source.get("textgenerationwebui_settings")
    return freeze_object(found) if is_mapping(found) else EMPTY_OBJECT


def _chat_messages(state: SillyTavernState, assembled: AssembledText) -> int:
    """Return how many messages of the chat are in the prompt, without injections."""
    draft, sent = state.draft, {id(item) for item in assembled.sent}
    injected = {id(draft.messages[place]) for place in draft.injected}
    made = {} if draft.items is None else draft.items.made
    count = sum([key not in injected and id(item) in sent for key, item in made.items()])
    return count - len(assembled.frozen)


def _sampling(state: SillyTavernState) -> FrozenObject:
    """Return the sampler settings for any model."""
    settings = _text_settings(state)
    options: dict[str, FrozenJson] = {name: settings[key] for key, name in _SAMPLERS.items() if key in settings}
    seed = settings.get("seed")
    if isinstance(seed, int) and seed >= 0:
        options["seed"] = seed
    options["max_tokens"] = state.context.max_response
    return {**options, **freeze_object(state.context.llm_options)}


def _layout(state: SillyTavernState) -> TextLayout:
    context, draft = state.context, state.draft
    kind, formatter = context.prompt_type, draft.formatter
    assert draft.reply is not None
    assert draft.items is not None
    return TextLayout(
        story=draft.story,
        examples=draft.examples,
        items=draft.items,
        injected=draft.injected,
        inserted=len(draft.messages) - len(state.core),
        reply=draft.reply,
        alignment=draft.alignment,
        start=draft.start,
        continuing=kind == "continue",
        pin_examples=context.settings.power_user.pin_examples,
        # SillyTavern cuts one line break off the newest message, but not always in instruct mode.
        loses_newline=kind != "continue" and (formatter is None or (formatter.template.wrap and kind != "quiet")),
        history_cut=history_cut(state),
        names=role_names(context),
    )


def _finished(state: SillyTavernState, assembled: AssembledText, guidance: str) -> list[Segment]:
    """Add a guidance prompt and the start of the reply, then remove what SillyTavern never sends."""
    draft, context = state.draft, state.context
    # In instruct mode the bias is part of the reply line.
    bias = state.turn.bias if draft.formatter is None and context.prompt_type != "impersonate" else ""
    history = [list(item) for item in assembled.history] if guidance or bias else assembled.history
    if guidance and history:
        _guide(history, guidance, 0 if context.volatile == TAIL else draft.guidance.depth)
    if bias and history:
        _add_word(history[-1], trim_start(bias), BIAS)
    whole = AssembledText(
        assembled.story, assembled.start, assembled.examples, history=history, continued=assembled.continued
    )
    return normalised(whole.segments(), collapse_newlines=context.settings.power_user.collapse_newlines)


def _guide(history: list[list[Segment]], text: str, depth: int) -> None:
    """Add a guidance prompt: at depth 0 to the end, after the reply line, else before as many items."""
    if depth <= 0:
        _add_word(history[-1], text, GUIDANCE)
    else:
        history[max(len(history) - depth, 0)].insert(0, Segment(text + "\n", GUIDANCE))


def _add_word(segments: list[Segment], text: str, origin: Origin) -> None:
    """Add a text, with a space before it unless there is one."""
    before = text_of(segments)
    spaced = bool(before) and not trim(before[-1])
    segments.append(Segment(text if spaced else " " + text, origin))
