"""What was found in the chat, the settings and the card and is not in the prompt, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._values import EMPTY_OBJECT, counted
from tavernkit.prompt._block import Omission
from tavernkit.silly_tavern._chat.attachments import MEDIA_KEYS, names_of, shown_media, why_not_sent
from tavernkit.silly_tavern._chat.card_fields import BOTTOM_OF_NOTE, NOWHERE, TOP_OF_NOTE
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.core_chat import has_reasoning, is_shown
from tavernkit.silly_tavern._chat.extension_prompts import AUTHORS_NOTE, IN_CHAT, PERSONA
from tavernkit.silly_tavern._chat.vector_storage import EXTENSION as VECTORS_EXTENSION
from tavernkit.silly_tavern._chat.vector_storage import data_bank
from tavernkit.silly_tavern._provenance import TITLES
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScript
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._text_completion.guidance import Guidance
from tavernkit.silly_tavern._world_info.selection import file_stem

_STORED = frozenset({"inject", "summary", "author's note", "depth prompt", "vectors", "data bank"})
"""Kinds of texts that come from the chat, the settings and the card, not from the application."""


def report_unused(state: SillyTavernState, *, with_tools: bool) -> None:
    """Report what was found and is not used.

    Args:
        state: The workspace of the build, after the chat, the card and the author's note were prepared.
        with_tools: True if lines about tools are sent.
    """
    _report_lines(state, with_tools=with_tools)
    _report_hidden(state)
    _report_note(state)
    _report_persona(state)
    _report_scripts(state)
    _report_data_bank(state)
    if not state.context.text_completion:
        _report_guidance(state)


def _report_lines(state: SillyTavernState, *, with_tools: bool) -> None:
    chat = state.turn.chat
    known, first = state.services.chats.know(chat, with_tools=with_tools), chat[:1]
    hidden = len(chat) - len(known.core) - sum(is_shown(line, with_tools=with_tools) for line in first)
    if hidden:
        state.omit(Omission("history", "hidden", "hidden in the chat (is_system)", counted(hidden, "message")))
    reasonings = known.reasonings + sum(map(has_reasoning, first))
    settings = state.context.settings.power_user.reasoning
    if reasonings and not settings.add_to_prompts:
        reason = "the settings do not add it to prompts (reasoning.add_to_prompts)"
        state.omit(Omission("reasoning", "reasoning", reason, f"the reasoning of {counted(reasonings, 'message')}"))
    elif (more := reasonings - max(settings.max_additions, 0)) > 0:
        reason = f"the settings add it to {settings.max_additions} at most (reasoning.max_additions)"
        state.omit(Omission("reasoning", "reasoning", reason, f"the reasoning of {counted(more, 'message')}"))
    lines = (*first, *map(chat.__getitem__, known.media))
    _report_media(state, [line for line in lines if not MEDIA_KEYS.isdisjoint(line.extra)])


def _report_media(state: SillyTavernState, lines: list[ChatMessage]) -> None:
    context = state.context
    unsent: dict[str, list[Mapping[str, object]]] = {}
    for line in lines:
        if line.is_system:
            continue
        for item in shown_media(line.extra, context.settings.power_user.media_display):
            reason = (
                "text completion sends no media"
                if context.text_completion
                else why_not_sent(item, context.active_preset, context.model_list)
            )
            if item.get("url") and reason:
                unsent.setdefault(reason, []).append(item)
    for reason, items in unsent.items():
        state.omit(Omission("attachment", "media", reason, names_of(items)))


def _report_hidden(state: SillyTavernState) -> None:
    """Report stored texts whose place does not exist. Texts that are scanned for lore keys are in use."""
    for prompt in state.extensions:
        reason = prompt.hidden
        if not reason and prompt.filtered and prompt.position != IN_CHAT and not state.context.text_completion:
            reason = "its filter says no"
        if reason and prompt.value and prompt.kind in _STORED and not (prompt.scan and not prompt.filtered):
            state.omit(Omission(prompt.kind, prompt.key, reason, prompt.label))


def _report_note(state: SillyTavernState) -> None:
    for title, reason in state.note.unused if state.note is not None else ():
        state.omit(Omission("author's note", AUTHORS_NOTE, reason, title))


def _report_persona(state: SillyTavernState) -> None:
    persona, title = state.context.active_persona, TITLES["personaDescription"]
    if not persona.description:
        return
    if persona.place == NOWHERE:
        reason = "its position is none; {{persona}} still gives it"
        state.omit(Omission("persona", PERSONA, reason, title))
    elif persona.place in (TOP_OF_NOTE, BOTTOM_OF_NOTE) and (state.note is None or not state.note.due):
        state.omit(Omission("persona", PERSONA, "it belongs to the author's note, which is not due", title))


def _report_scripts(state: SillyTavernState) -> None:
    scripts = state.context.regex_scripts
    if scripts is None:
        return
    for listed, title, allowed in (
        (scripts.global_, "of the settings", True),
        (scripts.preset, "of the preset", scripts.preset_allowed),
        (scripts.scoped, "of the card", scripts.scoped_allowed),
    ):
        switched_on = [script for script in listed if not script.disabled]
        if switched_on and not (scripts.enabled and allowed):
            reason = "they were not allowed" if scripts.enabled else "the extension regex is switched off"
            state.omit(Omission("regex scripts", title, reason, f"{_names(switched_on)} {title}"))


def _names(scripts: list[RegexScript]) -> str:
    return f"{counted(len(scripts), 'regex script')} ({', '.join(script.name or script.id for script in scripts)})"


def _report_data_bank(state: SillyTavernState) -> None:
    context = state.context
    settings, of_chat = context.settings.extension_settings, context.metadata.get("attachments")
    if not (settings.get("attachments") or settings.get("character_attachments") or of_chat):
        return
    listed, disabled = data_bank(settings, of_chat, context.avatar_file)
    vectors = context.settings.of_extension(VECTORS_EXTENSION)
    if listed and not (vectors is not None and vectors.get("enabled_files")):
        reason = "Vector Storage for files is switched off, without it the Data Bank is not in the prompt"
        state.omit(Omission("data bank", "data bank", reason, counted(len(listed), "file")))
    elif listed and context.generation_type != "quiet" and not context.dry_run:
        indexed = context.vectors.indexed if context.vectors is not None else frozenset[str]()
        for file in listed:
            if str(file.get("url")) not in indexed and not context.attachments.get(str(file.get("url"))):
                state.omit(
                    Omission("data bank", str(file.get("url")), "its text is not in the folder", names_of([file]))
                )
    if disabled:
        state.omit(Omission("data bank", "disabled", "switched off in the settings", names_of(disabled)))


def _report_guidance(state: SillyTavernState) -> None:
    context = state.context
    stored = context.settings.of_extension("cfg") or EMPTY_OBJECT
    if not stored and "cfg_guidance_scale" not in context.metadata.source:
        return
    found = Guidance.of(context.metadata, stored, file_stem(context.avatar_file))
    if found.in_use and (found.positive or found.negative):
        state.omit(Omission("guidance", "cfg_prompt", "only text completion uses it", "CFG prompts"))
