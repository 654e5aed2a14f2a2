"""A group while it talks: its settings, its members' cards, the one who speaks."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._dataclass import dataclass
from tavernkit.cards._character import Character
from tavernkit.silly_tavern._groups.group import Group, GroupMember


@dataclass(frozen=True, slots=True)
class GroupChat:
    """A group with those of its members whose cards are known, in its order; ``speaker`` is an avatar."""

    group: Group
    members: tuple[GroupMember, ...] = ()
    speaker: str | None = None

    @classmethod
    def of(cls, group: Group, cards: Mapping[str, Character], speaker: str | None = None) -> GroupChat:
        """Find the members among cards by avatar; others are left aside."""
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
        """True if the members' cards are joined into one; else the speaker's is the only one."""
        return self.group.generation_mode != "swap" and bool(self.group.members)

    def heard(self, *, with_muted: bool) -> list[GroupMember]:
        """The members whose cards count: the speaker's always does, muted ones' only if asked for."""
        muted = frozenset[str]() if with_muted else frozenset(self.group.disabled_members) - {self.speaker}
        return [member for member in self.members if member.avatar not in muted]
