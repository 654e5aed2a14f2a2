"""Moves changing texts to where they do not break a prompt cache, in text completion."""

from __future__ import annotations

from dataclasses import replace

from tavernkit._values import FrozenObject
from tavernkit.prompt._block import Moved
from tavernkit.silly_tavern._caching.placing import BEHIND, DEPTH_REASON
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._provenance import title_of
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._text_completion.messages import ChatEntry, TextMessage, frozen_message


def role_names(context: SillyTavernContext) -> tuple[str, str, str]:
    """Return the names of the roles system, user and assistant in the chat."""
    return ("", context.user_name, context.character_name)


def report_moved(state: SillyTavernState, source: FrozenObject, text: str, reference: str, reason: str) -> None:
    """Report that a text was moved to after the chat.

    Args:
        state: The build.
        source: Where the text came from.
        text: The text.
        reference: Where SillyTavern puts it.
        reason: Why it was moved.
    """
    kind, identifier = str(source.get("kind")), str(source.get("id"))
    tokens = state.text_counter.text(text)
    state.moved.append(Moved(kind, identifier, title_of(source), reference, BEHIND, reason, tokens))


def move_behind_chat(state: SillyTavernState, *, continuing: bool) -> None:
    """Put texts from the story string after the chat, before texts from a depth; report the latter.

    Args:
        state: The build. Its draft already has texts from a depth after the chat.
        continuing: True if the newest message is continued, and must stay the last.
    """
    draft = state.draft
    for place in draft.injected:
        message = draft.messages[place]
        if isinstance(message, TextMessage) and message.origin.depth:
            where = f"in the chat at depth {message.origin.depth}"
            report_moved(state, message.origin.source, message.text, where, DEPTH_REASON)
            draft.messages[place] = replace(message, origin=replace(message.origin, depth=0))
    in_chat = len(draft.messages) - len(draft.injected)
    place = min(int(continuing), in_chat) + len(draft.injected)
    draft.messages[place:place] = reversed(draft.behind)
    draft.injected += range(place, place + len(draft.behind))


def insert_frozen_messages(state: SillyTavernState, names: tuple[str, str, str], *, continuing: bool) -> None:
    """Put each line of lore after its message; if that is hidden, after the one before.

    Args:
        state: The build.
        names: The names of the roles system, user and assistant.
        continuing: True if the newest message is continued, and must stay the last.
    """
    draft = state.draft
    for line in state.frozen_lines:
        place = next(
            (
                place
                for place, each in enumerate(draft.messages)
                if isinstance(each, CoreMessage) and each.index <= line.after
            ),
            len(draft.messages),
        )
        while place > 0 and _stands_before(draft.messages[place - 1], line.after):
            place -= 1
        place = max(place, int(continuing and bool(draft.messages)))
        draft.messages.insert(place, frozen_message(line, names))
        draft.injected = [each + (each >= place) for each in draft.injected]


def _stands_before(entry: ChatEntry, after: int) -> bool:
    return isinstance(entry, TextMessage) and entry.frozen is not None and entry.frozen.after <= after
