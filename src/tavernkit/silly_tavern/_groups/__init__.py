"""Group chats: who speaks, and joined cards."""

from tavernkit.silly_tavern._groups.activation import ActivationInput, MissingGroupMemberError, activate
from tavernkit.silly_tavern._groups.cards import group_depth_prompts, merge_cards
from tavernkit.silly_tavern._groups.group import Group, GroupChat, GroupMember, reconcile

__all__ = [
    "ActivationInput",
    "Group",
    "GroupChat",
    "GroupMember",
    "MissingGroupMemberError",
    "activate",
    "group_depth_prompts",
    "merge_cards",
    "reconcile",
]
