"""An application's decision about who speaks, compared with the group's own rules."""

from __future__ import annotations

import hashlib
import json

from tavernkit.errors import Warn
from tavernkit.prompt._group_decision import GroupDecision
from tavernkit.silly_tavern._groups.group import Group


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
    """Return the application's decision; warn if the group's rules decide differently."""
    if given is None or computed is None:
        return given or computed
    if tuple(given.activated) != tuple(computed.activated):
        warn(
            f"group decision mismatch: the application chose {list(given.activated)}, "
            f"the {computed.strategy or 'unknown'} strategy gives {list(computed.activated)}; the application's is used"
        )
    return given
