"""An active group: its settings, its members' cards, and the speaker."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._dataclass import dataclass
from tavernkit.cards._character import Character
from tavernkit.silly_tavern._groups.group import Group, GroupMember


@dataclass(frozen=True, slots=True)
class GroupChat:
    """A group with the members whose cards are known, in order; ``speaker`` is an avatar."""

    group: Group
    members: tuple[GroupMember, ...] = ()
    speaker: str | None = None

    @classmethod
    def of(cls, group: Group, cards: Mapping[str, Character], speaker: str | None = None) -> GroupChat:
        """Find the members among cards by avatar; others are ignored."""
        return cls(group, tuple(GroupMember(each, cards[each]) for each in group.members if each in cards), speaker)

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names."""
        return tuple(member.name for member in self.members)

    @property
    def names_not_muted(self) -> tuple[str, ...]:
        """The names of the members who are not muted."""
        muted = frozenset(self.group.disabled_members)
        return tuple(member.name for member in self.members if member.avatar not in muted)

    @property
    def joins_cards(self) -> bool:
        """True if the members' cards are joined; otherwise only the speaker's is used."""
        return self.group.generation_mode != "swap" and bool(self.group.members)

    def heard(self, *, with_muted: bool) -> list[GroupMember]:
        """Return the members whose cards are used: always the speaker's, muted ones only on request."""
        muted = frozenset[str]() if with_muted else frozenset(self.group.disabled_members) - {self.speaker}
        return [member for member in self.members if member.avatar not in muted]
