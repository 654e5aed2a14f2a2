"""Why each entry of a scan is in or out, in words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import cached_property
from itertools import accumulate

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import Undefined, js_lower, number_to_string, to_number, to_string, trim
from tavernkit._values import Json
from tavernkit.lore import no_key_found
from tavernkit.silly_tavern._world_info.candidates import (
    LASTING_RULES,
    RANK,
    PassType,
    Reason,
    Verdict,
    blocked,
    secondary_logic,
)
from tavernkit.silly_tavern._world_info.entry import Entry, find_plain, may_hold_macro, parse_regex_key
from tavernkit.silly_tavern._world_info.limits import MAX_HINT_CHARS, MAX_SCAN_DEPTH
from tavernkit.silly_tavern._world_info.matching import KeyMatch, Origin, Piece
from tavernkit.silly_tavern._world_info.scan import Scan

_BEGINNING = 4
"""How many characters of a key are checked first, to rule out most keys of a large book."""


class NearMisses:
    """Finds keys that occur in the texts of a scan but did not count."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._pieces = [
            *(Piece(Origin.MESSAGE, index, text) for index, text in enumerate(scan.input.messages[:MAX_SCAN_DEPTH])),
            *scan.haystack.sources,
            *scan.haystack.injects,
            *scan.haystack.recursion,
        ]
        self._folded = [js_lower(piece.text) for piece in self._pieces]
        self._starts = list(accumulate((len(text) + 1 for text in self._folded), initial=0))
        self._everything = text = "\n".join(self._folded)
        self._searched = 0
        self._beginnings = {text[at : at + _BEGINNING] for at in range(len(text))}

    def hint(self, entry: Entry) -> str | None:
        """Return why a plain key of an entry that occurs in some text did not count, if there is one."""
        for key in map(trim, entry.keys):
            folded = js_lower(key)
            if not key or (len(folded) >= _BEGINNING and folded[:_BEGINNING] not in self._beginnings):
                continue
            self._searched += len(self._everything)
            if self._searched > MAX_HINT_CHARS:
                return None
            at = self._everything.find(folded)
            if at < 0 or may_hold_macro(key) or parse_regex_key(key) is not None:
                continue
            # A key that spans the end of a piece is in none of them, unless it occurs in a later one.
            for index in range(bisect_right(self._starts, at) - 1, len(self._pieces)):
                if folded in self._folded[index]:
                    return self._reason(key, self._pieces[index], entry)
        return None

    def _reason(self, key: str, piece: Piece, entry: Entry) -> str:
        found = f"{key!r} is in {piece}"
        view = self._scan.widest_view(entry)
        if view is None:
            return f"{found}, but its scan depth is 0"
        if not view.sees(piece):
            if piece.origin is Origin.MESSAGE:
                return f"{found}, beyond its scan depth of {view.messages}"
            return f"{found}, which it does not scan"
        case_sensitive, _ = self._scan.table.modes(entry)
        if case_sensitive and key not in piece.text:
            return f"{found} in another case"
        if find_plain(js_lower(key), js_lower(piece.text), whole_word=True) < 0:
            return f"{found} only as part of a word"
        if entry.exclude_recursion and piece.origin is Origin.RECURSION:
            return f"{found}, but it is excluded from recursion"
        return f"{found}, which it saw only when it could not activate"


_EXCERPT = 24
"""Characters shown around a match."""

_FINAL = frozenset({Reason.NO_KEYS, Reason.NO_KEY_FOUND, *(reason for reason, _ in LASTING_RULES)})
"""Final reasons, which other passes cannot change."""

_LOGIC = {0: "AND ANY", 1: "NOT ALL", 2: "NOT ANY", 3: "AND ALL"}


@dataclass(frozen=True, slots=True)
class _Written:
    """A finished reason."""

    text: str

    def __call__(self, entry: Entry, verdict: Verdict) -> str:
        return self.text


@dataclass(frozen=True)
class Explanation:
    """Why an entry is in (``active``) or out: the rule, the facts, and a sentence for people (``text``)."""

    entry: Entry
    verdict: Verdict
    write: Callable[[Entry, Verdict], str] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[type[Explanation], tuple[Entry, Verdict, _Written]]:
        """A pickle contains the text, because its writer refers to the whole scan."""
        return Explanation, (self.entry, self.verdict, _Written(self.text))

    @cached_property
    def text(self) -> str:
        """The reason in words, made on demand."""
        return self.write(self.entry, self.verdict)

    @property
    def active(self) -> bool:
        """True if the entry was activated."""
        return self.verdict.reason.activates

    @property
    def reason(self) -> Reason:
        """The rule that decided."""
        return self.verdict.reason

    @property
    def match(self) -> KeyMatch | None:
        """The primary key that was found, and where."""
        return self.verdict.match

    def __str__(self) -> str:
        title = f" ({self.entry.comment})" if self.entry.comment else ""
        return f"{self.entry.identity}{title}: {'in' if self.active else 'out'}, {self.text}"


class Explainer:
    """Explains the entries of a finished scan, on demand.

    A scan records only what cannot be found out later; for entries without any match, everything follows from the entry
    itself and the passes.
    """

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._states = list({(state.type, to_string(state.level)): state for state in scan.states}.values())

    def __len__(self) -> int:
        return len(self._scan.books)

    def touched(self) -> Iterator[Explanation]:
        """Explain the entries that the scan had to decide about."""
        return (self.explain(position) for position in sorted(self._scan.verdicts))

    def explain(self, position: int) -> Explanation:
        """Explain the entry at an index of the list."""
        entry = self._scan.books.entry(position)
        return Explanation(entry, self._verdict(entry, position), self._write)

    def _write(self, entry: Entry, verdict: Verdict) -> str:
        text = _TEXTS[verdict.reason](self._scan, entry, verdict)
        hint = self._near_misses.hint(entry) if verdict.reason is Reason.NO_KEY_FOUND else None
        return f"{text}; {hint}" if hint else text

    @cached_property
    def _near_misses(self) -> NearMisses:
        return NearMisses(self._scan)

    def _verdict(self, entry: Entry, position: int) -> Verdict:
        best = self._scan.verdicts.get(position)
        if best is not None and best.reason.activates:
            return best
        for state in self._states:
            verdict = blocked(entry, position, state)
            if verdict is None:
                reason = Reason.NO_KEY_FOUND if entry.keys else Reason.NO_KEYS
                verdict = Verdict(reason=reason, pass_number=state.number)
            if best is None or RANK[verdict.reason] > RANK[best.reason]:
                best = verdict
            if verdict.reason in _FINAL:
                break
        assert best is not None, "a scan with entries has at least one pass"
        return best


def _match_text(match: KeyMatch | None) -> str:
    if match is None:
        return "a key was found"
    if match.piece is None:
        return f"its key {match.key!r} needs no text"
    text, start = match.piece.text, match.offset
    excerpt = text[max(start - _EXCERPT, 0) : start + len(match.key) + _EXCERPT]
    return f"key {match.key!r} found in {match.piece}: …{excerpt!s}…".replace("\n", " ")


def _with_roll(text: str, entry: Entry, verdict: Verdict) -> str:
    if verdict.rolled is None:
        return text
    return f"{text}; rolled {verdict.rolled:.1f} of {_number(entry.probability)}%"


def _number(value: Json | Undefined) -> str:
    return number_to_string(to_number(value))


def _trigger(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    return f"only for {', '.join(entry.triggers)}; this is {scan.input.trigger}"


def _filter_text(exclude: bool, wanted: tuple[str, ...], given: str) -> str:
    return f"{'not for' if exclude else 'only for'} {', '.join(wanted)}; {given}"


def _character(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    speaker = scan.input.speaker
    given = "no character is speaking" if speaker is None else f"{speaker.name} is speaking"
    return _filter_text(entry.character_filter.exclude, entry.character_filter.names, given)


def _tags(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    speaker = scan.input.speaker
    tags = sorted(speaker.tags) if speaker is not None else []
    given = f"the character has {', '.join(tags)}" if tags else "the character has no tags"
    return _filter_text(
        entry.character_filter.exclude, tuple(f"tag {tag}" for tag in entry.character_filter.tags), given
    )


def _delay(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    return f"waits for {_number(entry.delay)} messages; there are {scan.timed.length}"


def _cooldown(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    until = "" if verdict.until is None else f" until message {number_to_string(verdict.until)}"
    return f"on cooldown{until}; there are {scan.timed.length}"


def _level(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    levels = [to_string(state.level) for state in scan.states if state.type is PassType.RECURSION]
    reached = levels[-1] if levels else "0"
    return f"waits for level {to_string(entry.delay_until_recursion)} of recursion; level {reached} was reached"


def _no_key(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    return no_key_found(entry.keys)


def _secondary(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    logic = secondary_logic(entry)
    name = _LOGIC.get(logic, f"unknown logic {logic!r}") if isinstance(logic, int) else f"unknown logic {logic!r}"
    found = ", ".join(repr(key) for key in verdict.secondary) or "none"
    wanted = ", ".join(repr(key) for key in entry.secondary_keys)
    return f"{_match_text(verdict.match)}, but its secondary keys ask for {name} of {wanted}; found: {found}"


def _group(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    if verdict.lost_to is None:
        return f"left out by its group {verdict.group!r}, of which another entry is active or which is on hold"
    return f"lost to {verdict.lost_to} in group {verdict.group!r}"


def _probability(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    return f"rolled {verdict.rolled:.1f}, above its probability of {_number(entry.probability)}%"


def tokens_needed(scan: Scan, entry: Entry, verdict: Verdict) -> int:
    """Return the tokens that an entry would have needed."""
    return scan.input.count_tokens(scan.content(entry) + "\n") if verdict.needed is None else verdict.needed


def _budget(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    limit = number_to_string(scan.budget.limit)
    if verdict.needed is None:
        needed = tokens_needed(scan, entry, verdict)
        return f"needs {needed} tokens, but the budget of {limit} was used up before it"
    return f"needs {verdict.needed} tokens, but only {verdict.left} of the budget of {limit} were left"


def _key(scan: Scan, entry: Entry, verdict: Verdict) -> str:
    text = _match_text(verdict.match)
    if verdict.secondary:
        text += f", with {', '.join(repr(key) for key in verdict.secondary)}"
    return _with_roll(text, entry, verdict)


def _says(text: str) -> Callable[[Scan, Entry, Verdict], str]:
    return lambda scan, entry, verdict: _with_roll(text, entry, verdict)


_TEXTS: dict[Reason, Callable[[Scan, Entry, Verdict], str]] = {
    Reason.DISABLED: _says("switched off"),
    Reason.TRIGGER: _trigger,
    Reason.CHARACTER_FILTER: _character,
    Reason.TAG_FILTER: _tags,
    Reason.DELAY: _delay,
    Reason.COOLDOWN: _cooldown,
    Reason.DELAYED_RECURSION: _says("waits for recursion, and there was none"),
    Reason.RECURSION_LEVEL: _level,
    Reason.EXCLUDED_FROM_RECURSION: _says("takes no part in recursion"),
    Reason.DONT_ACTIVATE: _says("its decorator @@dont_activate keeps it out"),
    Reason.NO_KEYS: _says("has no keys and is not constant"),
    Reason.NO_KEY_FOUND: _no_key,
    Reason.SECONDARY_KEYS: _secondary,
    Reason.GROUP: _group,
    Reason.PROBABILITY: _probability,
    Reason.BUDGET: _budget,
    Reason.ACTIVATE: _says("its decorator @@activate lets it in"),
    Reason.FORCED: _says("activated from outside"),
    Reason.CONSTANT: _says("constant"),
    Reason.STICKY: _says("still sticky from an earlier turn"),
    Reason.KEY: _key,
}
