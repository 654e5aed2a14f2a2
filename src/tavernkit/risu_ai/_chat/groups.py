"""Who speaks in a group, and in which order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import js_lower
from tavernkit._text.js_values.numbers import as_float
from tavernkit._values import is_sequence
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat
from tavernkit.risu_ai.errors import PromptTemplateError

T = TypeVar("T")

UNKNOWN_CHARACTER = "Unknown Character"
"""RisuAI's names for a member that no longer exists, and for an unknown sender."""

_WORD_ENDS = re.compile(r"[ \n]")
"""Punctuation is part of a word in RisuAI: ``Bea,`` does not mention Bea."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member: the character's id, its name, and how likely it speaks (below zero: never)."""

    id: str
    name: str
    talkness: float


def group_members(group: RisuCharacter, characters: Sequence[RisuCharacter]) -> list[GroupMember]:
    """The members of a group, in its order."""
    names = {character.id: character.name for character in characters}
    ids, talks, active = (_list(group, key) for key in ("characters", "characterTalks", "characterActive"))
    found: list[GroupMember] = []
    for index, member in enumerate(ids):
        talk = talks[index] if index < len(talks) else 0
        on = bool(active[index]) if index < len(active) else False
        talkness = as_float(talk) if on and isinstance(talk, (int, float)) else -1.0
        found.append(GroupMember(str(member), names.get(str(member), UNKNOWN_CHARACTER), talkness))
    return found


def speakers(
    group: RisuCharacter, characters: Sequence[RisuCharacter], chat: RisuChat, random: Callable[[], float]
) -> list[str]:
    """Return the ids of the speakers of this round, in order; a name mentioned twice makes its member speak twice.

    RisuAI throws if no member can speak and none is next in order: here, ``PromptTemplateError``.

    Args:
        group: The group.
        characters: All characters, members or not.
        chat: The chat so far.
        random: Returns a random number from 0 to 1.
    """
    candidates = [member for member in group_members(group, characters) if member.talkness > 0]
    if group.raw.get("orderByOrder"):
        return [member.id for member in candidates]
    last = chat.messages[-1] if chat.messages else None
    chosen = _named(candidates, last.data) if last is not None and last.data else []
    known = set(chosen)
    for member in shuffled(candidates, random):
        if member not in known and member.talkness >= random():
            chosen.append(member)
            known.add(member)
    if not chosen:
        place = math.floor(random() * len(candidates))  # drawn even if there are no candidates
        if not candidates:
            raise PromptTemplateError("no one in the group can speak")
        chosen.append(candidates[place])
    # The last speaker is removed at the end, even as the only one chosen: then nobody speaks.
    return [member.id for member in chosen if last is None or member.id != last.saying]


def shuffled(items: Sequence[T], random: Callable[[], float]) -> list[T]:
    """Return the items in random order, drawing one number each."""
    found = list(items)
    for index in range(len(found)):
        other = index + math.floor(random() * (len(found) - index))
        found[index], found[other] = found[other], found[index]
    return found


def _named(candidates: Sequence[GroupMember], text: str) -> list[GroupMember]:
    """Return the members whose name (or a word of it) is mentioned, in order."""
    by_word: dict[str, GroupMember] = {}
    for member in candidates:
        for word in _words(member.name):
            by_word.setdefault(word, member)
    return [by_word[word] for word in _words(text) if word in by_word]


def _words(text: str) -> list[str]:
    return _WORD_ENDS.split(js_lower(text))


def _list(group: RisuCharacter, key: str) -> Sequence[object]:
    found = group.raw.get(key)
    return found if is_sequence(found) else ()
