"""Why an entry is in or out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tavernkit.silly_tavern.world_info.matching import KeyMatch


class Reason(StrEnum):
    """The rule that decided about an entry, in the order in which rules are asked."""

    DISABLED = "disabled"
    TRIGGER = "trigger"
    CHARACTER_FILTER = "character_filter"
    TAG_FILTER = "tag_filter"
    DELAY = "delay"
    COOLDOWN = "cooldown"
    DELAYED_RECURSION = "delayed_recursion"
    RECURSION_LEVEL = "recursion_level"
    EXCLUDED_FROM_RECURSION = "excluded_from_recursion"
    DONT_ACTIVATE = "dont_activate"
    NO_KEYS = "no_keys"
    NO_KEY_FOUND = "no_key_found"
    SECONDARY_KEYS = "secondary_keys"
    GROUP = "group"
    PROBABILITY = "probability"
    BUDGET = "budget"
    ACTIVATE = "activate"
    FORCED = "forced"
    CONSTANT = "constant"
    STICKY = "sticky"
    KEY = "key"

    @property
    def activates(self) -> bool:
        """Whether this is a reason to be in."""
        return self in ACTIVATING


ACTIVATING = frozenset({Reason.ACTIVATE, Reason.FORCED, Reason.CONSTANT, Reason.STICKY, Reason.KEY})

RANK = {reason: rank for rank, reason in enumerate(Reason)}
"""How far an entry got when a rule stopped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of an entry in a pass, with the facts that belong to the reason.

    ``match`` is the primary key that was found, ``secondary`` the secondary keys that were; ``rolled`` the number that
    was compared with its probability; ``needed`` and ``left`` are tokens; ``group`` and ``lost_to`` say which group
    and which entry was preferred; ``until`` is the number of messages at which a delay or cooldown ends.
    """

    reason: Reason
    pass_number: int
    match: KeyMatch | None = None
    secondary: tuple[str, ...] = ()
    rolled: float | None = None
    needed: int | None = None
    left: int | None = None
    group: str | None = None
    lost_to: str | None = None
    until: float | None = None
