"""Who speaks in one turn, and the hand-shake between an application that decides and our own rules."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from tavernkit.errors import Warn
from tavernkit.silly_tavern.groups.group import Group
from tavernkit.values import JsonObject, is_sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """The speakers of a turn in order, and why. Keep it with the turn: the same seed gives the same decision.

    ``generation_types`` has one for each speaker. ``send_as_user`` tells that nobody speaks and the typed text is
    just sent.
    """

    activated: Sequence[str] = ()
    generation_types: Sequence[str] = ()
    strategy: str | None = None
    generation_type: str = "normal"
    is_user_input: bool = False
    seed: int | str | None = None
    reasons: Sequence[str] = ()
    send_as_user: bool = False

    def to_dict(self) -> JsonObject:
        """The decision, ready for :mod:`json`."""
        plain = asdict(self)
        for key in ("activated", "generation_types", "reasons"):
            plain[key] = list(plain[key])
        return plain

    @classmethod
    def from_dict(cls, value: Mapping[str, object]) -> GroupDecision:
        """Read what :meth:`to_dict` gave, or a decision of an application's own.

        Args:
            value: The decision. ``activated_member_ids`` is read as ``activated``; missing keys have their default.
        """
        known: dict[str, object] = {key: value[key] for key in cls.__slots__ if key in value}
        if "activated_member_ids" in value:
            known.setdefault("activated", value["activated_member_ids"])
        for key in ("activated", "generation_types", "reasons"):
            listed = known.get(key)
            if is_sequence(listed):
                known[key] = tuple(str(item) for item in listed)
        return cls(**known)  # pyright: ignore[reportArgumentType]  # an application's own saved values

    @property
    def fingerprint(self) -> str:
        """SHA-256 of who speaks, for traces."""
        return _digest(self.activated, self.generation_types)


def settings_fingerprint(group: Group) -> str:
    """SHA-256 of the settings that decide who speaks and how cards are joined, for traces."""
    return _digest(
        group.members,
        group.disabled_members,
        group.activation_strategy,
        group.generation_mode,
        group.allow_self_responses,
        group.join_prefix,
        group.join_suffix,
    )


def _digest(*values: object) -> str:
    return hashlib.sha256(json.dumps(values, default=list).encode()).hexdigest()


def reconcile(given: GroupDecision | None, computed: GroupDecision | None, warn: Warn) -> GroupDecision | None:
    """Take the application's decision; warn where our rules decide otherwise."""
    if given is None or computed is None:
        return given or computed
    if tuple(given.activated) != tuple(computed.activated):
        warn(
            f"group decision mismatch: the application chose {list(given.activated)}, "
            f"the {computed.strategy or 'unknown'} strategy gives {list(computed.activated)}; the application's is used"
        )
    return given
