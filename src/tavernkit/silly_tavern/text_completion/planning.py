"""The end of a text build: what fits, the final text, and the plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from tavernkit.prompt.context import REFERENCE
from tavernkit.silly_tavern.chat.output_cleanup import CleanUp, clean_up
from tavernkit.silly_tavern.provenance import TITLES, source
from tavernkit.silly_tavern.state import SillyTavernState
from tavernkit.silly_tavern.steps.prepare import group_names
from tavernkit.silly_tavern.text_completion.assembly import AssembledText, TextLayout, assemble
from tavernkit.silly_tavern.text_completion.plan import TextPlan
from tavernkit.silly_tavern.text_completion.segments import Origin, Segment, blocks_of, normalised, rendered, text_of
from tavernkit.silly_tavern.text_completion.stop_strings import StopInput, custom_stop_strings, stop_strings
from tavernkit.text.js_values import trim, trim_start
from tavernkit.values import EMPTY_OBJECT, FrozenJson, FrozenObject, freeze_object, is_mapping

GUIDANCE = Origin(
    "guidance",
    "system",
    source("plan_assembly", "chat metadata", "cfg_prompt", "CFG Prompt", "classifier-free guidance of the chat"),
    "guidance",
)
BIAS = Origin(
    "bias",
    "assistant",
    source("plan_assembly", "bias", "bias", TITLES["bias"], "the reply shall begin with it"),
    "bias",
)


def plan_text(state: SillyTavernState) -> None:
    """Let the budget decide, finish the text and make the plan."""
    context, draft, counter = state.context, state.draft, state.text_counter
    assembled = assemble(_layout(state), draft.limit if context.strategy == REFERENCE else math.inf, counter)
    state.assembled_text = assembled
    guidance = draft.guidance
    segments = _finished(state, assembled, guidance.positive if guidance.in_use else "")
    negative = text_of(_finished(state, assembled, guidance.negative)) if guidance.in_use else ""
    state.blocks = blocks_of(segments)
    state.llm_options = {
        "max_new_tokens": context.max_response,
        "max_tokens": context.max_response,
        "truncation_length": context.max_context,
        **state.llm_options,
    }
    stops = _stop_strings(state)
    state.plan = TextPlan(
        blocks=state.blocks,
        outlets=state.outlets,
        lore_result=state.lore_result,
        llm_options=state.llm_options,  # pyright: ignore[reportArgumentType]  # frozen by the plan
        counting_note=state.counting_note,
        sampling=_sampling(state),
        text_settings=_text_settings(state),
        count_tokens=counter.text,
        rendered=rendered(state.blocks, stops),
        chat=state.turn.chat,
        vector_calls=tuple(state.vector_calls),
        timed_world_info=state.lore_result.timed_state if state.lore_result is not None else EMPTY_OBJECT,
        negative_prompt=negative,
        guidance_scale=guidance.scale,
        clean_up=_cleaner(state, stops),
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
"""Text completion's samplers that most models take, with OpenAI's names for them."""


def _text_settings(state: SillyTavernState) -> FrozenObject:
    found = state.context.settings.source.get("textgenerationwebui_settings")
    return freeze_object(found) if is_mapping(found) else EMPTY_OBJECT


def _sampling(state: SillyTavernState) -> FrozenObject:
    """Return what the sampler settings ask of any model."""
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
    return TextLayout(
        story=draft.story,
        examples=draft.examples,
        items=draft.items,
        injected=draft.injected,
        reply=draft.reply,
        alignment=draft.alignment,
        start=draft.start,
        continuing=kind == "continue",
        pin_examples=context.settings.power_user.pin_examples,
        loses_newline=kind != "continue" and (formatter is None or (formatter.template.wrap and kind != "quiet")),
    )


def _finished(state: SillyTavernState, assembled: AssembledText, guidance: str) -> list[Segment]:
    """Add a guidance prompt and the start of the reply, then clean the text of what SillyTavern never sends."""
    draft, context = state.draft, state.context
    history = [list(item) for item in assembled.history]
    if guidance and history:
        _guide(history, guidance, draft.guidance.depth)
    bias = state.turn.bias
    if bias and history and draft.formatter is None and context.prompt_type != "impersonate":
        _add_word(history[-1], trim_start(bias), BIAS)
    whole = AssembledText(
        assembled.story, assembled.start, assembled.examples, history=history, continued=assembled.continued
    )
    return normalised(whole.segments(), collapse_newlines=context.settings.power_user.collapse_newlines)


def _guide(history: list[list[Segment]], text: str, depth: int) -> None:
    if depth <= 0:
        _add_word(history[-1], text, GUIDANCE)
    else:
        history[max(len(history) - depth, 0)].insert(0, Segment(f"{text}\n", GUIDANCE))


def _add_word(segments: list[Segment], text: str, origin: Origin) -> None:
    """Add a text, with a blank before it unless there is one."""
    before = text_of(segments)
    spaced = bool(before) and not trim(before[-1])
    segments.append(Segment(text if spaced else f" {text}", origin))


def _stop_strings(state: SillyTavernState) -> list[str]:
    context, power_user, chat = state.context, state.context.settings.power_user, state.turn.chat
    kind = context.prompt_type
    return stop_strings(
        StopInput(
            instruct=context.active_instruct,
            context=context.active_context_template,
            user_name=context.user_name,
            character_name=context.character_name,
            members=group_names(state),
            impersonate=kind == "impersonate",
            continues_user=kind == "continue" and bool(chat) and chat[-1].is_user,
            custom=custom_stop_strings(power_user.custom_stopping_strings, state.warn),
            once=context.stop_strings,
            expand=state.macros,
            expand_custom=power_user.custom_stopping_strings_macro,
        )
    )


def _cleaner(state: SillyTavernState, stops: list[str]) -> Callable[[str], str]:
    context, scripts = state.context, state.scripts
    impersonate = context.prompt_type == "impersonate"
    options = CleanUp(
        user_name=context.user_name,
        character_name=context.character_name,
        impersonate=impersonate,
        continuing=context.prompt_type == "continue",
        trim_sentences=context.active_context_template.trim_sentences,
        instruct=context.active_instruct,
        power_user=context.settings.power_user,
        stop_strings=stops,
        members=group_names(state),
        expand=state.macros,
        scripts=partial(scripts.reply, is_user=impersonate) if scripts is not None else str,
    )
    return lambda text: clean_up(text, options)
