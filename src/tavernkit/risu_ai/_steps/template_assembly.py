"""Assembles the messages by the template's cards or the preset's order."""

from __future__ import annotations

from tavernkit._text.js_values import trim
from tavernkit._text.traced import replaced
from tavernkit.prompt._context import TAIL
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.risu_ai._caching import report_depth, tail_order, tail_template
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, source_of
from tavernkit.risu_ai._prompt_template.card_writer import Printer, splice
from tavernkit.risu_ai._prompt_template.lore_places import REVERSE_DEPTH, in_chat, lore_message
from tavernkit.risu_ai._prompt_template.slot_texts import continue_line
from tavernkit.risu_ai._state import RisuState


def inject_into_chat(state: RisuState) -> None:
    """Put injections into the chat at their depths."""
    for depth, message in _messages(state, "chat"):
        if state.context.volatile == TAIL:
            _put_behind(state, message, f"in the chat at depth {depth}" if depth else "")
        else:
            splice(state.slots.chats, max(len(state.slots.chats) - depth, 0), message)


def inject_around(state: RisuState, messages: list[PromptMessage]) -> None:
    """Put injections before or after everything."""
    messages[:0] = [message for _, message in _messages(state, "before")]
    messages += [message for _, message in _messages(state, "after")]


def _messages(state: RisuState, position: str) -> list[tuple[int, PromptMessage]]:
    registry = state.context.injections
    if registry is None:
        return []
    found: list[tuple[int, PromptMessage]] = []
    for injection in registry:
        if injection.position == position and injection.active_for(state):
            where = f"in the chat at depth {injection.depth}" if position == "chat" else f"{position} everything"
            source = source_of("injection", "injection", where, name=injection.id, id=injection.id)
            content = state.texts(injection.content)
            found.append((injection.depth, PromptMessage(role=injection.role, content=content, source=source)))
    return found


class TemplateAssemblyStep(Step[RisuState, NoConfig]):
    """Puts lore into the chat, adds texts of triggers, walks the template or the order, and trims every text.

    Reads ``slots``, ``lore``, ``template``, ``preset``. Writes ``slots`` and ``messages``.
    """

    name = "template_assembly"

    def before(self, state: RisuState) -> None:
        """Assemble."""
        if state.stopped:
            return
        _place_lore(state)
        inject_into_chat(state)
        _add_trigger_texts(state)
        if state.context.continued:
            state.slots.post_everything += continue_line(state.preset.ai_model)
        printer = Printer(state.preset.ai_model, state.warn, state.build_budget.keep)
        template, order = state.template, state.preset.formating_order
        if state.context.volatile == TAIL:
            template, order = tail_template(state), tail_order(state, order)
        if template is not None:
            for omission in state.card_writer().print(template, printer):
                state.omit(omission)
        else:
            for name in (*order, "postEverything"):
                printer.push(state.slots.named(name) or ())
        inject_around(state, printer.messages)
        for message in printer.messages:
            message.content = trim(message.content)
        _place_depth_prompt(state, printer.messages)
        state.messages = printer.messages


def _place_lore(state: RisuState) -> None:
    chats = state.slots.chats
    for entry in state.lore:
        if in_chat(entry) and state.context.volatile == TAIL:
            where = f"in the chat at {entry.pos.replace('_', ' ')} {entry.depth:g}"
            _put_behind(state, lore_message(entry, state.texts(entry.text)), where)
        elif in_chat(entry):
            # RisuAI's depth counts from the start of the chat; the list grows meanwhile.
            index = len(chats) - entry.depth if entry.pos == REVERSE_DEPTH else entry.depth
            splice(chats, index, lore_message(entry, state.texts(entry.text)))


def _put_behind(state: RisuState, message: PromptMessage, where: str) -> None:
    """Put a message after the chat (``volatile="tail"``)."""
    slots = state.slots
    (slots.chats if state.template is not None else slots.last_chat).append(message)
    if where:
        report_depth(state, message, where)


def _add_trigger_texts(state: RisuState) -> None:
    """Put texts of start triggers around the last message and after everything; a template prints only the latter."""
    additions, slots = state.additions, state.slots
    if additions.promptend:
        slots.post_everything.append(_trigger_message(additions.promptend, "promptend"))
    if additions.historyend:
        slots.last_chat.append(_trigger_message(additions.historyend, "historyend"))
    if additions.start:
        slots.last_chat.insert(0, _trigger_message(additions.start, "start"))


def _trigger_message(text: str, location: str) -> PromptMessage:
    source = source_of("triggers", f"trigger {location}", "a start trigger added it")
    return PromptMessage(role="system", content=replaced(text, "start trigger", ""), source=source)


def _place_depth_prompt(state: RisuState, messages: list[PromptMessage]) -> None:
    """Insert the character's prompt. RisuAI neither merges nor trims it, and sends it even if it expands to nothing."""
    depth_prompt = state.fields.depth_prompt
    if depth_prompt is None or not depth_prompt.prompt:
        return
    where = f"the character's depth prompt, {depth_prompt.depth:g} messages before the end of the prompt"
    source = source_of("template", "depth prompt", where)
    message = PromptMessage(role="system", content=state.texts(depth_prompt.prompt), source=source)
    if state.context.volatile == TAIL and depth_prompt.depth > 0:
        messages.append(message)
        report_depth(state, message, f"{depth_prompt.depth:g} messages before the end")
    else:
        splice(messages, len(messages) - depth_prompt.depth, message)
