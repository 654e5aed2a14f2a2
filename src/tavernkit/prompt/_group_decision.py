"""Who speaks in one turn of a group."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, is_sequence
from tavernkit.prompt._inputs import GenerationType


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """The speakers of a turn in order, with reasons. The same seed gives the same decision."""

    activated: Sequence[str] = ()
    """The speakers: SillyTavern's file names of cards, RisuAI's ids of characters."""
    generation_types: Sequence[GenerationType] = ()
    """One for each speaker."""
    strategy: str | None = None
    """The group's activation rule."""
    generation_type: GenerationType = "normal"
    """The kind of turn that was decided for."""
    is_user_input: bool = False
    """True if the user wrote a message that the speakers answer."""
    seed: int | str | None = None
    """The seed of the random choices."""
    reasons: Sequence[str] = ()
    """Why each of them speaks."""
    send_as_user: bool = False
    """True if nobody speaks and the typed text is only stored."""

    def to_dict(self) -> JsonObject:
        """The decision, ready for ``json``."""
        plain = asdict(self)
        for key in ("activated", "generation_types", "reasons"):
            plain[key] = list(plain[key])
        return plain

    @classmethod
    def from_dict(cls, value: Mapping[str, object]) -> GroupDecision:
        """Read the output of ``to_dict()``, or a decision made by the application.

        Args:
            value: The decision. ``activated_member_ids`` is read as ``activated``; missing keys get defaults.
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
        return hashlib.sha256(json.dumps((self.activated, self.generation_types), default=list).encode()).hexdigest()
