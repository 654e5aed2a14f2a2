"""The rules that make an entry a candidate of a pass, or keep it out, and inclusion groups, in which only one stays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum, StrEnum

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, WHITESPACE, add, less_than, own_keys, to_number, to_string, truthy
from tavernkit._values import Json, is_list
from tavernkit.silly_tavern._world_info.entry import Entry
from tavernkit.silly_tavern._world_info.fields import ACTIVATE, DONT_ACTIVATE
from tavernkit.silly_tavern._world_info.key_table import EntryKeys
from tavernkit.silly_tavern._world_info.matching import KeyMatch, Matcher, View, logic_holds
from tavernkit.silly_tavern._world_info.scan_input import ScanInput
from tavernkit.silly_tavern._world_info.selection import sort_by_order
from tavernkit.silly_tavern._world_info.timed import TimedEffects


class Reason(StrEnum):
    """The rule that decided about an entry, in the order in which rules are checked."""

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
        """True if this is a reason to be in."""
        return self in ACTIVATING


ACTIVATING = frozenset({Reason.ACTIVATE, Reason.FORCED, Reason.CONSTANT, Reason.STICKY, Reason.KEY})

RANK = {reason: rank for rank, reason in enumerate(Reason)}
"""How far an entry got when a rule stopped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict about an entry in a pass, with the facts behind the reason.

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


class PassType(IntEnum):
    """Why a pass takes place."""

    STOP = 0
    INITIAL = 1
    RECURSION = 2
    MIN_ACTIVATIONS = 3


@dataclass(frozen=True, slots=True)
class PassState:
    """The state of a pass for the rules: its type, its number, and its level of delayed recursion."""

    type: PassType
    number: int
    level: Json
    scan_input: ScanInput
    timed: TimedEffects


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An entry on its way into the prompt.

    ``position`` is the index of the stored entry. A forced object replaces the stored entry; ``twin`` is then the index
    of the entry whose hash it has, if any, because timed effects use hashes.
    """

    entry: Entry
    position: int
    verdict: Verdict
    forced: bool = False
    twin: int | None = None

    @property
    def timed_position(self) -> int | None:
        """The index for timed effects."""
        return self.twin if self.forced else self.position


def _wrong_trigger(entry: Entry, position: int, state: PassState) -> bool:
    return bool(entry.triggers) and state.scan_input.trigger not in entry.triggers


def _wrong_character(entry: Entry, position: int, state: PassState) -> bool:
    character_filter = entry.character_filter
    if not character_filter.names:
        return False
    # Without a speaker, "only for" keeps the entry out and "not for" does not.
    speaker = state.scan_input.speaker
    listed = speaker is not None and speaker.name in character_filter.names
    return listed is character_filter.exclude


def _wrong_tags(entry: Entry, position: int, state: PassState) -> bool:
    character_filter = entry.character_filter
    speaker = state.scan_input.speaker
    if not character_filter.tags or speaker is None:  # without a speaker tags do not count, unlike names
        return False
    return speaker.tags.isdisjoint(character_filter.tags) is not character_filter.exclude


def _on_cooldown(entry: Entry, position: int, state: PassState) -> bool:
    return state.timed.on_cooldown(position) and not state.timed.is_sticky(position)


def _waits_for_recursion(entry: Entry, position: int, state: PassState) -> bool:
    if state.type is PassType.RECURSION or state.timed.is_sticky(position):
        return False
    return truthy(entry.delay_until_recursion)


def _waits_for_level(entry: Entry, position: int, state: PassState) -> bool:
    level = entry.delay_until_recursion
    return truthy(level) and less_than(state.level, level) and not state.timed.is_sticky(position)


def _excluded_from_recursion(entry: Entry, position: int, state: PassState) -> bool:
    if state.type is not PassType.RECURSION or not state.scan_input.settings.recursive:
        return False
    return entry.exclude_recursion and not state.timed.is_sticky(position)


Rule = Callable[[Entry, int, PassState], bool]

LASTING_RULES: tuple[tuple[Reason, Rule], ...] = (
    (Reason.DISABLED, lambda entry, position, state: entry.disabled),
    (Reason.TRIGGER, _wrong_trigger),
    (Reason.CHARACTER_FILTER, _wrong_character),
    (Reason.TAG_FILTER, _wrong_tags),
    (Reason.DELAY, lambda entry, position, state: state.timed.is_delayed(entry)),
    (Reason.COOLDOWN, _on_cooldown),
)
"""Rules that keep an entry out of the whole scan, in order."""

PASS_RULES: tuple[tuple[Reason, Rule], ...] = (
    (Reason.DELAYED_RECURSION, _waits_for_recursion),
    (Reason.RECURSION_LEVEL, _waits_for_level),
    (Reason.EXCLUDED_FROM_RECURSION, _excluded_from_recursion),
    (
        Reason.DONT_ACTIVATE,
        lambda entry, position, state: DONT_ACTIVATE in entry.decorators and ACTIVATE not in entry.decorators,
    ),
)
"""Rules that keep an entry out of one pass, checked after the others."""

_RULES = LASTING_RULES + PASS_RULES


def blocked(entry: Entry, position: int, state: PassState) -> Verdict | None:
    """Return the verdict of the first rule that keeps an entry out before its keys are checked, if any."""
    if not entry.restricted and not state.timed.on_cooldown(position):
        return None
    for reason, applies in _RULES:
        if applies(entry, position, state):
            until = None
            if reason is Reason.COOLDOWN:
                until = state.timed.cooldown_end(entry)
            elif reason is Reason.DELAY:
                until = to_number(entry.delay)
            return Verdict(reason=reason, pass_number=state.number, until=until)
    return None


def unconditional(entry: Entry, position: int, forced: bool, state: PassState) -> Reason | None:
    """Return the rule that activates an entry regardless of its keys."""
    if ACTIVATE in entry.decorators:
        return Reason.ACTIVATE
    if forced:
        return Reason.FORCED
    if entry.constant:
        return Reason.CONSTANT
    return Reason.STICKY if state.timed.is_sticky(position) else None


def match_keys(entry: Entry, keys: EntryKeys, view: View | None, matcher: Matcher, number: int) -> Verdict:
    """Decide by the keys of an entry."""
    match = matcher.find_first(keys.primary, view)
    if match is None:
        return Verdict(reason=Reason.NO_KEY_FOUND, pass_number=number)
    if not uses_secondary_keys(entry):
        return Verdict(reason=Reason.KEY, pass_number=number, match=match)
    found = [matcher.find(key, view) is not None for key in keys.secondary]
    secondary = tuple(key.text for key, is_found in zip(keys.secondary, found, strict=True) if is_found)
    reason = Reason.KEY if logic_holds(secondary_logic(entry), found) else Reason.SECONDARY_KEYS
    return Verdict(reason=reason, pass_number=number, match=match, secondary=secondary)


def uses_secondary_keys(entry: Entry) -> bool:
    """Return True if an entry's secondary keys are used."""
    return entry.selective and is_list(entry.raw.get("keysecondary")) and bool(entry.secondary_keys)


def secondary_logic(entry: Entry) -> object:
    """The logic of the secondary keys; missing or null is AND ANY."""
    logic = entry.selective_logic
    return 0 if logic is UNDEFINED or logic is None else logic


DEFAULT_WEIGHT = 100

_SEPARATOR = re.compile(f",[{WHITESPACE}]*")

Lost = Callable[[Candidate, Verdict], None]


def group_names(entry: Entry) -> list[str]:
    """Return the groups of an entry, separated by commas; spaces before the first name are part of it."""
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
            # SillyTavern compares the whole setting: an active entry of two groups takes neither of them.
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
            # Also members that are removed already, or sticky: see ``_remove``.
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
        if math.isnan(roll):  # weights that are text add up to text; nobody wins, and nobody is removed
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
