"""One scan: passes over the chat until nothing more is activated."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import less_or_equal, strict_equals, truthy
from tavernkit._values import Json, is_mapping, thaw_object
from tavernkit.silly_tavern._world_info.candidates import (
    LASTING_RULES,
    RANK,
    Candidate,
    GroupFilter,
    PassState,
    PassType,
    Reason,
    Verdict,
    blocked,
    match_keys,
    unconditional,
)
from tavernkit.silly_tavern._world_info.entry import Entry, problem_with
from tavernkit.silly_tavern._world_info.fields import check_depth
from tavernkit.silly_tavern._world_info.limits import MAX_CHECKS, MAX_PASSES
from tavernkit.silly_tavern._world_info.matching import Haystack, Matcher, View
from tavernkit.silly_tavern._world_info.scan_input import ScanInput
from tavernkit.silly_tavern._world_info.selection import TokenBudget, token_limit
from tavernkit.silly_tavern._world_info.timed import TimedEffects
from tavernkit.silly_tavern.errors import LoreParseError

if TYPE_CHECKING:
    from tavernkit.silly_tavern._world_info.engine import CompiledBooks

_LASTING = frozenset(reason for reason, _ in LASTING_RULES)


@dataclass(frozen=True, slots=True)
class Pass:
    """The result of a pass: the candidates left after groups, and those that passed the probability roll."""

    type: PassType
    next: PassType
    new: tuple[str, ...]
    successful: tuple[str, ...]


class Scan:
    """The state of one scan. ``run()`` leaves its outcome in the public attributes."""

    def __init__(self, books: CompiledBooks, scan_input: ScanInput) -> None:
        settings = scan_input.settings
        self.books = books
        self.input = scan_input
        self.timed = TimedEffects(books, scan_input.timed_state, len(scan_input.messages), dry_run=scan_input.dry_run)
        self.activated: dict[str, Candidate] = {}
        self.contents: dict[Entry, str] = {}
        self.passes: list[Pass] = []
        self.states: list[PassState] = []
        self.verdicts: dict[int, Verdict] = {}
        self.overflowed = False
        self.budget = TokenBudget(token_limit(settings, scan_input.max_context), scan_input.count_tokens)
        self.table = books.table(case_sensitive=settings.case_sensitive, whole_words=settings.match_whole_words)
        self.haystack = Haystack(scan_input)
        self._matcher = Matcher(self.table, self.haystack, scan_input.expand, scan_input.warn)
        self._random = scan_input.random or random.Random(0).random
        self._forced = dict(self._read_forced())
        self._failed: set[Entry] = set()
        self._settled: set[int] = set()
        self._levels: list[Json] = list(books.levels)
        self._level: Json = self._levels.pop(0) if self._levels else 0
        self._skew = 0
        self._fed = ""
        self._checks = 0
        self._twins: dict[Entry, int | None] = {}
        self._pool = {
            *books.unconditional,
            *self.table.loose,
            *self.timed.active["sticky"],
            *(position for identity in self._forced for position in books.positions(identity)),
        }

    def _read_forced(self) -> Iterable[tuple[str, Entry]]:
        for raw in self.input.forced:
            try:
                entry = _forced(raw)
            except LoreParseError as error:
                self.input.warn(f"a forced World Info entry is ignored: {error}")
            else:
                yield entry.identity, entry

    def run(self) -> Scan:
        """Run all passes."""
        if not len(self.books):
            return self
        self._reach()
        steps = self.input.settings.max_recursion_steps
        next_type = PassType.INITIAL
        while next_type is not PassType.STOP:
            if steps > 0 and len(self.passes) >= steps:
                break
            if len(self.passes) >= MAX_PASSES:
                self.input.warn(f"World Info stopped after {MAX_PASSES} passes")
                break
            if self._checks >= MAX_CHECKS:
                self.input.warn(f"World Info stopped after it had checked entries {MAX_CHECKS} times")
                break
            next_type = self._run_pass(next_type)
        if not self.input.dry_run:
            for candidate in self.activated.values():
                self.timed.set_for(candidate.entry, self._hash(candidate))
        return self

    def _hash(self, candidate: Candidate) -> Json:
        if candidate.forced:  # it has the hash that its sender gave it, or none, and then no later scan finds it
            return candidate.entry.raw.get("hash")
        return self.books.hash(candidate.position) if _has_effects(candidate.entry) else None

    def _reach(self) -> None:
        # Forced objects also use their own depth when they are scored in a group.
        own = (entry.scan_depth or 0 for entry in self._forced.values())
        depth = max(self.input.settings.depth + self._skew, self.books.deepest, *own)
        self._matcher.take_in(self.haystack.reach(depth))

    def _run_pass(self, pass_type: PassType) -> PassType:
        state = PassState(pass_type, len(self.passes) + 1, self._level, self.input, self.timed)
        self.states.append(state)
        candidates = self._collect(state)
        self.budget.begin_pass(self._fed)
        self._fed = ""
        candidates = self._filter_groups(candidates, state)
        self._accept(candidates, state)
        # A forced object that failed in an earlier pass may pass now, but still does not count.
        successful = [candidate for candidate in candidates if candidate.entry not in self._failed]
        next_type = self._next_pass(state, successful)
        self.passes.append(
            Pass(
                pass_type,
                next_type,
                tuple(candidate.entry.identity for candidate in candidates),
                tuple(candidate.entry.identity for candidate in successful),
            )
        )
        return next_type

    def _note(self, position: int, verdict: Verdict) -> None:
        """Keep the verdict of the pass in which the entry got furthest."""
        known = self.verdicts.get(position)
        if known is None or RANK[verdict.reason] > RANK[known.reason]:
            self.verdicts[position] = verdict

    def _collect(self, state: PassState) -> list[Candidate]:
        found: list[Candidate] = []
        forced_now: set[Entry] = set()
        self._pool |= self._matcher.take_touched()
        self._pool -= self._settled
        self._settled.clear()
        self._checks += len(self._pool)
        for position in sorted(self._pool):
            entry = self.books.entry(position)
            identity = entry.identity
            # Only listed entries stay failed: SillyTavern rolls again for a forced object.
            if entry in self._failed or identity in self.activated:
                self._settled.add(position)
                continue
            candidate = self._consider(entry, position, self._forced.get(identity), state)
            if candidate is None or (candidate.forced and candidate.entry in forced_now):
                continue
            if candidate.forced:
                forced_now.add(candidate.entry)
            found.append(candidate)
        if len(found) > 1:
            # A forced object is not in SillyTavern's list: its index is -1, and so it comes first.
            found.sort(
                key=lambda one: (not self.timed.is_sticky(one.timed_position), -1 if one.forced else one.position)
            )
        return found

    def _consider(self, entry: Entry, position: int, forced: Entry | None, state: PassState) -> Candidate | None:
        out = blocked(entry, position, state)
        if out is not None:
            self._note(position, out)
            if out.reason in _LASTING:
                self._settled.add(position)
            return None
        reason = unconditional(entry, position, forced is not None, state)
        if reason is not None:
            verdict = Verdict(reason=reason, pass_number=state.number)
            if reason is Reason.FORCED and forced is not None:
                return Candidate(forced, position, verdict, forced=True, twin=self._twin(forced))
            return Candidate(entry, position, verdict)
        keys = self.table.keys_of(position, entry)
        view = self.haystack.view(
            entry,
            self.input.settings.depth + self._skew,
            recursion=state.type is not PassType.MIN_ACTIVATIONS,  # these passes do not see activated lore
        )
        verdict = match_keys(entry, keys, view, self._matcher, state.number)
        if verdict.reason is Reason.KEY:
            return Candidate(entry, position, verdict)
        self._note(position, verdict)
        return None

    def _twin(self, forced: Entry) -> int | None:
        if "hash" not in forced.raw:
            return None
        if forced not in self._twins:
            stored = forced.raw["hash"]
            positions = self.books.positions(forced.identity)
            self._twins[forced] = next((at for at in positions if strict_equals(self.books.hash(at), stored)), None)
        return self._twins[forced]

    def _filter_groups(self, candidates: list[Candidate], state: PassState) -> list[Candidate]:
        if not any(candidate.entry.group for candidate in candidates):
            return list(dict.fromkeys(candidates))
        depth = self.input.settings.depth + self._skew
        recursion = state.type is not PassType.MIN_ACTIVATIONS

        @cache  # an entry may be in many groups
        def score(candidate: Candidate) -> int:
            view = self.haystack.view(candidate.entry, depth, recursion=recursion)
            return self._matcher.score(candidate.entry, view)

        return GroupFilter(
            candidates,
            pass_number=state.number,
            timed=self.timed,
            score=score,
            scoring=self.input.settings.use_group_scoring,
            random=self._random,
            lost=lambda candidate, verdict: self._note(candidate.position, verdict),
        ).run(candidate.entry for candidate in self.activated.values())

    def _accept(self, candidates: list[Candidate], state: PassState) -> None:
        """Accept candidates until the budget is used up."""
        for candidate in candidates:
            entry = candidate.entry
            # Once the budget is used up it stays so, in later passes too.
            if self.overflowed and not entry.ignore_budget:
                self._refuse(candidate, state)
                continue
            rolled = self._roll(candidate)
            if rolled is not None and not less_or_equal(rolled, entry.raw.get("probability", float("nan"))):
                self._failed.add(entry)
                self._note(
                    candidate.position,
                    Verdict(
                        reason=Reason.PROBABILITY,
                        pass_number=state.number,
                        match=candidate.verdict.match,
                        rolled=rolled,
                    ),
                )
                continue
            content = self.input.expand(self.content(entry))
            self.contents[entry] = content
            # Counts from now on, even if it is refused or ignores the budget: the entries after it have less room.
            self.budget.add(content + "\n")
            if not entry.ignore_budget and self.budget.is_exceeded():
                self.overflowed = True
                needed, left = self.budget.last_entry()
                self._refuse(candidate, state, needed, left)
                continue
            self.activated[entry.identity] = candidate
            verdict = candidate.verdict
            self.verdicts[candidate.position] = verdict if rolled is None else replace(verdict, rolled=rolled)

    def _roll(self, candidate: Candidate) -> float | None:
        entry = candidate.entry
        # The text "100" is rolled, unlike the number; a probability of 0 passes with a roll of exactly 0.
        if not entry.use_probability or strict_equals(entry.probability, 100):
            return None
        if self.timed.is_sticky(candidate.timed_position):
            return None
        return self._random() * 100

    def _refuse(
        self, candidate: Candidate, state: PassState, needed: int | None = None, left: int | None = None
    ) -> None:
        verdict = Verdict(
            reason=Reason.BUDGET,
            pass_number=state.number,
            match=candidate.verdict.match,
            needed=needed,
            left=left,
        )
        self._note(candidate.position, verdict)

    def widest_view(self, entry: Entry) -> View | None:
        """Return what an entry saw, or would have seen, at the end of the scan."""
        return self.haystack.view(entry, self.input.settings.depth + self._skew, recursion=True)

    def content(self, entry: Entry) -> str:
        """Return the current text of an entry.

        Its macros are expanded when its turn comes. If that never happens because the budget is used up, it feeds the
        next pass as written.
        """
        made = self.contents.get(entry)
        return self.input.read(entry) if made is None else made

    def _next_pass(self, state: PassState, successful: list[Candidate]) -> PassType:
        settings = self.input.settings
        # Entries that the budget refused feed recursion too.
        feeding = [candidate.entry for candidate in successful if not candidate.entry.prevent_recursion]
        next_type = PassType.STOP
        if not self.overflowed:
            # After a widened pass, which does not see activated lore, that is searched even if nothing new fired.
            widened = state.type is PassType.MIN_ACTIVATIONS and bool(self.haystack.recursion)
            if settings.recursive and (feeding or widened):
                next_type = PassType.RECURSION
            elif self._should_widen():
                next_type = PassType.MIN_ACTIVATIONS
                self._skew += 1
                self._reach()
        # Delayed entries get their pass even if recursion is off or the budget is used up.
        if next_type is PassType.STOP and self._levels:
            next_type = PassType.RECURSION
            self._level = self._levels.pop(0)
        if next_type is not PassType.STOP:
            self._feed("\n".join(self.content(entry) for entry in feeding), state.number)
        return next_type

    def _should_widen(self) -> bool:
        settings = self.input.settings
        if not 0 < settings.min_activations > len(self.activated):
            return False
        depth = settings.depth + self._skew
        limit = settings.min_activations_depth_max
        # SillyTavern checks the depth of the pass before: the last one looks one message beyond the limit.
        return not (limit > 0 and depth > limit) and depth <= len(self.input.messages)

    def _feed(self, chunk: str, number: int) -> None:
        if chunk:
            self._matcher.take_in([self.haystack.recurse(chunk, number)])
            self._fed = chunk + "\n"


def _forced(raw: object) -> Entry:
    problem = problem_with(raw)
    if problem is not None or not is_mapping(raw):
        raise LoreParseError(str(problem))
    if not {"world", "uid"} <= raw.keys():
        raise LoreParseError("it needs its world and uid")
    check_depth(raw)
    return Entry(thaw_object(raw), "", decorated=False)


def _has_effects(entry: Entry) -> bool:
    return truthy(entry.sticky) or truthy(entry.cooldown)
