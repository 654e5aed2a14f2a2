"""The chat of a text prompt: its messages, texts at a depth, and the post-history instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim_start
from tavernkit.silly_tavern._caching.frozen_lore import FrozenLine
from tavernkit.silly_tavern._chat.core_chat import CoreMessage, role_of
from tavernkit.silly_tavern._chat.extension_prompts import ROLES, ExtensionPrompt, joined
from tavernkit.silly_tavern._chat_completion.history_messages import frozen_source, injected_source
from tavernkit.silly_tavern._chat_completion.layout import Injected
from tavernkit.silly_tavern._chat_completion.prompt_collection import CHAT_HISTORY
from tavernkit.silly_tavern._files.preset_prompts import DEFAULT_INJECTION_ORDER
from tavernkit.silly_tavern._provenance import TITLES, message_source, source
from tavernkit.silly_tavern._text_completion.plan import Origin

USER = 1
_POST_HISTORY, _AFTER_CHAT = TITLES["jailbreak"], "goes at the end of the chat"


@dataclass(frozen=True, slots=True)
class TextMessage:
    """A message of the chat, or one made from prompts in it."""

    name: str
    text: str
    origin: Origin
    is_user: bool = False
    narrator: bool = False
    forced_avatar: bool = False
    frozen: FrozenLine | None = None
    """Lore that became a line of the history."""


ChatEntry: TypeAlias = CoreMessage | TextMessage
"""A stored message of the chat, or one inserted by the build."""


def chat_message(message: CoreMessage) -> TextMessage:
    """Return a message of the core chat for writing."""
    line = message.line
    return TextMessage(
        name=line.name,
        text=message.text,
        origin=Origin(
            id=f"{CHAT_HISTORY}-{message.index}",
            role=role_of(line),
            source=message_source("injection", message.index, line.name, additions=message.additions),
            slot=CHAT_HISTORY,
            group="history",
        ),
        is_user=line.is_user,
        narrator=line.narrator,
        forced_avatar=bool(line.force_avatar),
    )


def inject(
    newest_first: list[ChatEntry],
    prompts: Mapping[tuple[int, int], Sequence[ExtensionPrompt]],
    names: Sequence[str],
    expand: Callable[[str], str],
    *,
    continuing: bool,
    behind: bool = False,
) -> list[int]:
    """Put the registry's prompts into the chat, each depth and role as one message; return their positions.

    Args:
        newest_first: The chat; it is changed.
        prompts: The prompts by depth and role.
        names: The names of the roles system, user and assistant.
        expand: Expands macros.
        continuing: True if a message is continued: then depth 0 is before it.
        behind: Put everything after the chat, regardless of depth.
    """
    places: list[int] = []
    for depth in sorted({depth for depth, _ in prompts}):
        group = _at_depth(depth, prompts, names, expand)
        wanted = (int(continuing) if behind or depth == 0 else depth) + len(places)
        place = min(wanted, len(newest_first))
        newest_first[place:place] = group
        places += range(place, place + len(group))
    return places


def frozen_message(line: FrozenLine, names: Sequence[str]) -> TextMessage:
    """Return lore that became a line of the history as a message.

    Args:
        line: The line.
        names: The names of the roles system, user and assistant.
    """
    number = ROLES.index(line.role)
    return TextMessage(
        name=names[number],
        text=line.text,
        origin=Origin(
            id=f"lore-{line.id}-{line.after}",
            role=line.role,
            source=frozen_source(line),
            slot=CHAT_HISTORY,
            group="history",
        ),
        is_user=number == USER,
        narrator=number == 0,
        frozen=line,
    )


def post_history_message(text: str, *, from_card: bool) -> TextMessage:
    """Return the instructions after the chat, as a user message without a name."""
    found = (
        source("injection", "card field", "post_history_instructions", f"{_POST_HISTORY} of the card", _AFTER_CHAT)
        if from_card
        else source("injection", "system prompt", "post_history", _POST_HISTORY, _AFTER_CHAT)
    )
    return TextMessage(
        name="",
        text=text,
        origin=Origin(
            id="jailbreak",
            role="user",
            source=found,
            slot="jailbreak",
        ),
        is_user=True,
    )


def _at_depth(
    depth: int,
    prompts: Mapping[tuple[int, int], Sequence[ExtensionPrompt]],
    names: Sequence[str],
    expand: Callable[[str], str],
) -> list[TextMessage]:
    found: list[TextMessage] = []
    for number, role in enumerate(ROLES):
        registered = tuple(prompts.get((depth, number), ()))
        # The end is not trimmed: a blank text leaves an empty line after others.
        text = trim_start(expand(joined(registered))) if registered else ""
        if text:
            injected = Injected(role, text, depth, DEFAULT_INJECTION_ORDER, extensions=registered)
            found.append(
                TextMessage(
                    name=names[number],
                    text=text,
                    origin=Origin(
                        id=f"injection-{depth}-{role}",
                        role=role,
                        source=injected_source(injected),
                        slot=CHAT_HISTORY,
                        group="history",
                        depth=depth,
                    ),
                    is_user=number == USER,
                    narrator=number == 0,
                )
            )
    return found
