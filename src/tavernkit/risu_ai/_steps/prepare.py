"""This turn's chat and character, and which entries of the lorebook are active."""

from __future__ import annotations

from tavernkit._values import LazySequence
from tavernkit.prompt._context import FREEZE
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.risu_ai._caching import freeze_lore
from tavernkit.risu_ai._chat.chat_log import with_messages, with_text
from tavernkit.risu_ai._chat.groups import UNKNOWN_CHARACTER
from tavernkit.risu_ai._context import chained_settings
from tavernkit.risu_ai._lorebook.engine import LorebookSettings, ScanInput
from tavernkit.risu_ai._lorebook.keys import LoreMessage
from tavernkit.risu_ai._lorebook.result import LorebookResult
from tavernkit.risu_ai._objects import RisuCharacter, RisuMessage, made_id
from tavernkit.risu_ai._prompt_template.card_writer import active_template
from tavernkit.risu_ai._prompt_template.cards import PromptSettings
from tavernkit.risu_ai._prompt_template.slots import character_fields
from tavernkit.risu_ai._regex_scripts.script import scripts_of
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai._triggers.build_triggers import run_build_triggers


class PrepareStep(Step[RisuState, NoConfig]):
    """Determines preset, speaker and template, and permanently expands every stored message.

    Reads ``context``. Writes ``preset``, ``character``, ``fields``, ``switches``, ``template``, ``chat`` and ``texts``;
    ``setvar`` and similar functions in stored messages are executed here.
    """

    name = "prepare"

    def before(self, state: RisuState) -> None:
        """Prepare the turn."""
        context = state.context
        typed = bool(context.message) or context.say_nothing
        find_speaker(state, chained=not typed)
        if typed:
            take_message(state)
            if context.settings.preset_chain:  # picked after the message was taken, as in RisuAI
                chat = state.chat
                find_speaker(state)
                state.see_chat(chat)
        expand = state.texts.with_writes
        messages = list(state.chat.messages)
        places = state.services.chats.know(state.chat.messages).with_cbs
        for place in places:
            messages[place] = with_text(messages[place], expand(messages[place].data))
        if places:
            state.see_chat(with_messages(state.chat, messages))


def find_speaker(state: RisuState, *, chained: bool = True) -> None:
    """Find the speaker, with preset, template and scripts; without ``chained``, the preset chain is not used."""
    context = state.context
    if chained and not state.in_group:
        state.settings = chained_settings(context, state.texts.context.random, state.warn)
        state.preset = context.preset if context.preset is not None else state.settings.preset
    state.character = _speaker(state)
    state.fields = character_fields(state.character)
    state.texts = state.new_texts()
    state.switches = state.preset.prompt_settings if state.template_in_use else PromptSettings()
    state.template = active_template(state.preset.prompt_template, state.fields, state.switches)
    state.see_chat(state.services.chats.with_ids(context.chat))
    state.scripts = tuple(scripts_of(state.texts.context, state.preset.regex, warn=state.warn))
    state.runner = state.services.script_runner(state.session, state.session_owner)
    state.runner.see_modules(tuple(module.id for module in state.texts.context.enabled_modules))
    state.trigger_engine = state.services.trigger_engine(state.session, state.session_owner)


def _speaker(state: RisuState) -> RisuCharacter:
    context = state.context
    if not context.owner.is_group or context.speaker is None:
        return context.owner
    found = next((member for member in context.members if member.id == context.speaker), None)
    if found is None:
        state.warn(f"the group's speaker {context.speaker!r} is not among its members; an empty character speaks")
        return RisuCharacter(name=UNKNOWN_CHARACTER, id=made_id("member", context.speaker))
    return found


SAYS_NOTHING = "*says nothing*"


def take_message(state: RisuState) -> None:
    """Store the text of the input box in the chat: input triggers first, then Lua, CBS and ``editinput`` scripts."""
    text = state.context.message
    if not text:
        if _says_nothing(state):
            # As in RisuAI: no triggers, no scripts, no time.
            _append(state, RisuMessage(role="user", data=SAYS_NOTHING))
        return
    if state.in_group:
        # A group stores the text as it was typed; its macros run with the first speaker's prompt.
        _append(state, RisuMessage(role="user", data=text, time=state.milliseconds))
        return
    run_build_triggers(state, "input")
    _append(state, RisuMessage(role="user", data=state.edit_input(text), time=state.milliseconds))


def _says_nothing(state: RisuState) -> bool:
    context = state.context
    if not context.say_nothing or state.in_group:
        return False
    if context.continued and context.quirks != "reference":
        return False  # RisuAI would overwrite what it added with the continued reply
    return not state.chat.messages or state.chat.messages[-1].role != "user"


def _append(state: RisuState, message: RisuMessage) -> None:
    state.see_chat(state.services.chats.with_ids(with_messages(state.chat, (*state.chat.messages, message))))


class LoreStep(Step[RisuState, NoConfig]):
    """Scans the lore of the character (or group), the chat and the modules over the expanded chat.

    Reads ``chat`` and ``texts``. Writes ``lore`` and ``lore_result``, and the marks of entries that are stored as chat
    variables.
    """

    name = "lore"

    def before(self, state: RisuState) -> None:
        """Scan."""
        result = _scan(state)
        for name, value in result.markers.items():
            state.texts.context.set_var(name, value)
        state.lore, state.lore_result = result.actives, result
        if state.context.lore == FREEZE:
            state.lore = freeze_lore(state, result)
        state.stat("lore_activated", len(result.actives))
        for omission in result.omissions:
            state.omit(omission)


def _scan(state: RisuState) -> LorebookResult:
    context, settings = state.texts.context, state.context.settings
    defaults = LorebookSettings(scan_depth=settings.lorebook_depth, token_budget=settings.lorebook_tokens)
    lore = state.services.lore(context, defaults, state.warn)
    stored = state.chat.messages
    return (state.context.lore_engine or state.services.lore_engine).scan(
        ScanInput(
            entries=lore.compiled,
            messages=LazySequence(len(stored), lambda place: LoreMessage(stored[place].role, stored[place].data)),
            settings=lore.settings,
            greeting_index=state.chat.greeting_index,
            count_tokens=state.counter.text,
            random=context.random,
            chat_variable=context.chat_variable,
            warn=state.warn,
            strict=state.context.strict,
        ),
    )
