"""The start of a build: the turn, the card, the chat, the examples and the author's note, in SillyTavern's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tavernkit.prompt.omission import Omission
from tavernkit.silly_tavern.chat.authors_note import authors_note, read_overrides
from tavernkit.silly_tavern.chat.card_fields import CardTexts, card_texts
from tavernkit.silly_tavern.chat.chat_message import ChatMessage
from tavernkit.silly_tavern.chat.core_chat import add_reasoning, core_chat, prepare_texts
from tavernkit.silly_tavern.chat.depth_prompt import DepthPrompt, depth_prompt_of
from tavernkit.silly_tavern.chat.examples import START_LINE, parse_block, split_examples
from tavernkit.silly_tavern.chat.extension_prompts import (
    AUTHORS_NOTE,
    DEPTH_PROMPT,
    IN_CHAT,
    QUIET_PROMPT,
    ExtensionPrompt,
    ExtensionPrompts,
)
from tavernkit.silly_tavern.chat.turn import TurnInput, begin_turn
from tavernkit.silly_tavern.chat_completion.layout import ExampleBlock
from tavernkit.silly_tavern.chat_completion.tools import tools_supported
from tavernkit.silly_tavern.groups.cards import group_depth_prompts, merge_cards
from tavernkit.silly_tavern.provenance import CARD_FIELD
from tavernkit.silly_tavern.scripts.prompt_scripts import PromptScripts
from tavernkit.silly_tavern.state import SillyTavernState
from tavernkit.silly_tavern.world_info.selection import file_stem


def prepare(state: SillyTavernState) -> None:
    """Do what comes before lore is scanned. Each text's macros run here in the order SillyTavern runs them."""
    context = state.context
    state.random = context.random_source
    state.macros = state.new_macros()
    state.scripts = PromptScripts.of(context.regex_scripts, state.macros, state.warn, state.services.scripts)
    if not context.dry_run:
        context.memory.generation_started(context.generation_type)
    chat = _with_first_message_shown(state, context.log.lines)
    state.quiet_prompt = state.macros(context.quiet_prompt)
    _begin(state, chat)
    state.card = _card(state)
    state.extensions = ExtensionPrompts(context.extension_prompts)
    _register_injections(state)
    _register_depth_prompts(state)
    _expand_first_message(state)
    _prepare_core_chat(state)
    state.examples = example_blocks(state, state.card.examples, ExampleBlock(()))
    _register_note(state)
    state.extensions.set(ExtensionPrompt(QUIET_PROMPT, state.quiet_prompt, scan=True, kind="quiet prompt", reason=""))


def _begin(state: SillyTavernState, chat: tuple[ChatMessage, ...]) -> None:
    """Change the chat as the type of generation asks."""
    context = state.context
    scripts = state.scripts
    turn = TurnInput(
        generation_type=context.generation_type,
        message=context.message,
        send_if_empty="" if context.text_completion else context.active_preset.send_if_empty,
        user_name=context.user_name,
        user_prompt_bias=context.settings.power_user.user_prompt_bias,
        untouched=context.tool_recursion > 0 or context.dry_run,
        in_group=context.group is not None,
    )
    state.turn = begin_turn(
        chat,
        turn,
        expand=state.macros.typed,
        user_input_scripts=scripts.user_input if scripts is not None else _unchanged,
        warn=state.warn,
    )
    sent = state.turn.sent is not None
    state.macros.change(chat=state.turn.chat, input="" if sent else context.message)


def example_blocks(state: SillyTavernState, text: str, template: ExampleBlock) -> list[ExampleBlock]:
    """Read example dialogue into blocks that carry the template's provenance."""
    context = state.context
    if context.text_completion:
        heading = START_LINE if context.active_instruct.enabled else example_heading(state)
        return [replace(template, text=block) for block in split_examples(text, heading)]
    names = {"user_name": context.user_name, "character_name": context.character_name}
    group = group_names(state)
    return [
        ExampleBlock(
            tuple(parse_block(block, **names, group_names=group)),
            template.kind,
            template.id,
            template.title,
            template.reason,
        )
        for block in split_examples(text)
    ]


def example_heading(state: SillyTavernState) -> str:
    """The line above each block of example dialogue in text completion."""
    separator = state.context.active_context_template.example_separator
    return state.macros(separator) + "\n" if separator else ""


def group_names(state: SillyTavernState) -> tuple[str, ...]:
    """The names of a group's members, in order; none outside a group."""
    group = state.macros.environment.group
    return group.names if group is not None else ()


def _card(state: SillyTavernState) -> CardTexts:
    context, power_user = state.context, state.context.settings.power_user
    group, joined = state.macros.environment.group, None
    if group is not None:
        joined = merge_cards(
            group,
            expand=state.macros.card,
            scenario_override=context.metadata.scenario,
            examples_override=context.metadata.mes_example,
        )
    return card_texts(
        context.card,
        context.metadata,
        context.active_persona.description,
        prefer_prompt=power_user.prefer_character_prompt,
        prefer_jailbreak=power_user.prefer_character_jailbreak,
        joined=joined,
        expand=state.macros.card,
    )


def _register_injections(state: SillyTavernState) -> None:
    for injection in state.context.injections or ():
        if injection.active_for(state):
            state.extensions.set(ExtensionPrompt.from_injection(injection))
        else:
            state.omit(Omission("injection", injection.id, "its filter says no"))


def _register_depth_prompts(state: SillyTavernState) -> None:
    context, group = state.context, state.macros.environment.group
    if group is not None:
        prompts = group_depth_prompts(group, expand=state.macros.card)
        for index, prompt in enumerate(prompts):
            _register_depth_prompt(state, f"{DEPTH_PROMPT}_{index}", prompt)
        if prompts:
            return
    if context.card is not None:
        written = depth_prompt_of(context.card)
        _register_depth_prompt(state, DEPTH_PROMPT, DepthPrompt(state.card.depth_prompt, written.depth, written.role))


def _register_depth_prompt(state: SillyTavernState, key: str, prompt: DepthPrompt) -> None:
    state.extensions.set(
        ExtensionPrompt(
            key,
            prompt.text,
            IN_CHAT,
            prompt.depth,
            prompt.role,
            kind="depth prompt",
            reason=CARD_FIELD,
            title="Character's Note",
        )
    )


def _with_first_message_shown(state: SillyTavernState, lines: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """SillyTavern expands the first message when it shows the chat, and stores it so."""
    if not lines:
        return ()
    chat = (lines[0].replace(mes=state.macros(lines[0].mes)), *lines[1:])
    state.macros.change(chat=chat)
    return chat


def _expand_first_message(state: SillyTavernState) -> None:
    """The first message is expanded once more by the generation itself."""
    turn = state.turn
    if turn.chat:
        first = turn.chat[0].replace(mes=state.macros(turn.chat[0].mes))
        state.turn = replace(turn, chat=(first, *turn.chat[1:]))
        state.macros.change(chat=state.turn.chat)


def _prepare_core_chat(state: SillyTavernState) -> None:
    context, kind = state.context, state.context.prompt_type
    with_tools = not context.text_completion and tools_supported(context.active_preset)
    state.core = core_chat(state.turn.chat, generation_type=kind, with_tools=with_tools)
    prepare_texts(state.core, generation_type=kind, scripts=state.scripts, warn=state.warn)
    add_reasoning(
        state.core,
        context.settings.power_user.reasoning,
        generation_type=kind,
        only_name=context.character_name if context.group is not None else None,
        expand=state.macros,
        scripts=state.scripts,
    )


def _register_note(state: SillyTavernState) -> None:
    context = state.context
    user_messages = sum(line.is_user for line in state.turn.chat)
    note = authors_note(context.metadata, context.settings.note, user_messages, file_stem(context.avatar_file))
    note = note.placed(read_overrides(context.authors_note))
    state.note = note
    state.extensions.set(
        ExtensionPrompt(
            AUTHORS_NOTE,
            note.text,
            note.position,
            note.depth,
            note.role,
            scan=context.settings.note.allow_wi_scan,
            kind="author's note",
            reason=note.reason,
        )
    )


def _unchanged(text: str) -> str:
    return text
