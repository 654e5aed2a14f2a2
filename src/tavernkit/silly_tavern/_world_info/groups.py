"""Inclusion groups: of the candidates in a group, only one stays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from tavernkit._text.js_values import UNDEFINED, WHITESPACE, add, own_keys, to_number, to_string
from tavernkit.silly_tavern._world_info.candidates import Candidate, Reason, Verdict
from tavernkit.silly_tavern._world_info.entry import Entry
from tavernkit.silly_tavern._world_info.selection import sort_by_order
from tavernkit.silly_tavern._world_info.timed import TimedEffects

DEFAULT_WEIGHT = 100

_SEPARATOR = re.compile(f",[{WHITESPACE}]*")

Lost = Callable[[Candidate, Verdict], None]


def group_names(entry: Entry) -> list[str]:
    """Return the groups of an entry, separated by commas."""
    return [name for name in _SEPARATOR.split(entry.group) if name]


class GroupFilter:
    """Filters the candidates of one pass; ``lost`` is called with each removed one."""

    def __init__(
        self,
        candidates: list[Candidate],
        *,
        pass_number: int,
        timed: TimedEffects,
        score: Callable[[Candidate], int],
        scoring: bool,
        random: Callable[[], float],
        lost: Lost,
    ) -> None:
        # Thousands of candidates are removed from large groups: a dict keeps their order and deletes fast.
        self._candidates = dict.fromkeys(candidates)
        self._pass_number = pass_number
        self._timed = timed
        self._score = score
        self._scoring = scoring
        self._random = random
        self._lost = lost
        self._groups: dict[str, list[Candidate]] = {}
        self._sticky: set[str] = set()

    def run(self, activated: Iterable[Entry]) -> list[Candidate]:
        """Return the remaining candidates."""
        for candidate in self._candidates:
            for name in group_names(candidate.entry):
                self._groups.setdefault(name, []).append(candidate)
        if self._groups:
            order = own_keys(self._groups)
            taken = {entry.group for entry in activated}
            for step in (self._filter_timed, self._filter_by_score):
                for name in order:
                    step(name, self._groups[name])
            for name in order:
                self._choose(name, self._groups[name], already_active=name in taken)
        return list(self._candidates)

    def _remove(self, candidate: Candidate, group: str, winner: Candidate | None = None) -> None:
        """Remove a candidate; if it is already removed, the last one is removed instead, as in SillyTavern."""
        gone = candidate
        if candidate in self._candidates:
            del self._candidates[candidate]
        elif self._candidates:
            gone, _ = self._candidates.popitem()
        else:
            return
        self._lost(
            gone,
            Verdict(
                reason=Reason.GROUP,
                pass_number=self._pass_number,
                match=gone.verdict.match,
                group=group,
                lost_to=None if winner is None else winner.entry.identity,
            ),
        )

    def _filter_timed(self, name: str, members: list[Candidate]) -> None:
        sticky = [member for member in members if self._timed.is_sticky(member.timed_position)]
        if sticky:
            self._sticky.add(name)
            for member in members:
                if not self._timed.is_sticky(member.timed_position):
                    self._remove(member, name, sticky[0])
        for effect in (self._timed.on_cooldown, self._timed.is_delayed_at):
            for member in members:
                if effect(member.timed_position):
                    self._remove(member, name)

    def _filter_by_score(self, name: str, members: list[Candidate]) -> None:
        if name in self._sticky:
            return
        if not self._scoring and not any(member.entry.use_group_scoring for member in members):
            return
        scores = [self._score(member) for member in members]
        best = max(scores)
        winner = members[scores.index(best)]
        kept: list[Candidate] = []
        for member, score in zip(members, scores, strict=True):
            own = member.entry.use_group_scoring
            if score < best and (self._scoring if own is None else own):
                self._remove(member, name, winner)
            else:
                kept.append(member)
        members[:] = kept

    def _choose(self, name: str, members: list[Candidate], *, already_active: bool) -> None:
        if name in self._sticky:
            return
        if already_active:
            for member in members:
                self._remove(member, name)
            return
        if len(members) <= 1:
            return
        winner = self._override(members) or self._roll(members)
        if winner is not None:
            for member in members:
                if member is not winner:
                    self._remove(member, name, winner)

    def _override(self, members: list[Candidate]) -> Candidate | None:
        preferred = [member for member in members if member.entry.group_override]
        if not preferred:
            return None
        return sort_by_order(preferred, [member.entry.order for member in preferred])[0]

    def _roll(self, members: list[Candidate]) -> Candidate | None:
        weights = [_weight(member.entry) for member in members]
        roll = self._random() * to_number(_sum(weights))
        if math.isnan(roll):  # weights that are text add up to text
            return None
        reached: object = 0
        for member, weight in zip(members, weights, strict=True):
            reached = add(reached, weight)
            if roll <= to_number(reached):
                return member
        return None


def _sum(weights: Sequence[object]) -> str | float:
    """Add weights from left to right as JavaScript does: from the first text on, they are joined."""
    total: str | float = 0.0
    for index, weight in enumerate(weights):
        total = add(total, weight)
        if isinstance(total, str):
            return total + "".join(map(to_string, weights[index + 1 :]))
    return total


def _weight(entry: Entry) -> object:
    weight = entry.group_weight
    return DEFAULT_WEIGHT if weight is None or weight is UNDEFINED else weight
