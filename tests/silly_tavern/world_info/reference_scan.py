"""The scan the straightforward way: every entry's text is joined and every key looked for, in every pass.

Written from the description of the behaviour alone, over plain dicts, with nothing of the engine but JavaScript's
regular expressions, its hash and its decorators. The engine has to give the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit.silly_tavern._world_info import Entry, entry_hash

Record = dict[str, Any]
SOURCES = (
    "matchPersonaDescription",
    "matchCharacterDescription",
    "matchCharacterPersonality",
    "matchCharacterDepthPrompt",
    "matchScenario",
    "matchCreatorNotes",
)


@dataclass
class Outcome:
    activated: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    passes: list[tuple[int, int, list[str], list[str]]] = field(default_factory=list)
    overflowed: bool = False
    timed: Record = field(default_factory=dict)


@dataclass
class Reference:
    """One scan. `entries` is the sorted list of `(book, entry)`; `messages` are newest first."""

    entries: list[tuple[str, Record]]
    messages: list[str]
    settings: Record
    max_context: int
    count: Callable[[str], int]
    substitute: Callable[[str], str]
    random: Callable[[], float]
    sources: list[str]
    injects: list[str]
    trigger: str
    speaker: str | None
    tags: list[str]
    timed: Record
    forced: list[Record]
    dry_run: bool

    def run(self) -> Outcome:
        self.outcome = Outcome()
        self.listed = [self._listed(book, raw) for book, raw in self.entries]
        self._check_timed()
        if self.listed:
            self._loop()
        self.outcome.timed = self.timed
        return self.outcome

    def _listed(self, book: str, raw: Record) -> Record:
        entry = Entry(raw, book)
        decorators, content = entry.decorators, entry.content
        extra = {"id": f"{book}.{raw['uid']}", "hash": entry_hash(entry), "decorators": decorators, "content": content}
        return {**raw, **extra}

    def _loop(self) -> None:
        s = self.settings
        budget = math.floor(s["budget"] * self.max_context / 100 + 0.5) or 1
        if s["budget_cap"] > 0:
            budget = min(budget, s["budget_cap"])
        levels = sorted({int(e["delayUntilRecursion"]) for e in self.listed if e["delayUntilRecursion"]})
        self.level = levels.pop(0) if levels else 0
        self.activated: dict[str, Record] = {}
        self.failed: list[Record] = []
        self.chunks: list[str] = []
        self.skew = 0
        forced = {f"{e['world']}.{e['uid']}": {**e, "id": f"{e['world']}.{e['uid']}"} for e in self.forced}
        activated_text = ""
        overflowed = False
        state = 1
        passes = 0
        while state:
            if 0 < s["max_recursion_steps"] <= passes:
                break
            passes += 1
            self.state = state
            candidates: list[Record] = []
            for entry in self.listed:
                found = self._candidate(entry, forced.get(entry["id"]))
                if found is not None and not any(found is other for other in candidates):
                    candidates.append(found)
            if len(candidates) > 1:
                candidates.sort(key=lambda e: (not self._sticky(e), self._place(e)))
            self._groups(candidates)
            base = self.count(activated_text) if activated_text else 0
            text = ""
            left = sum(bool(e.get("ignoreBudget")) for e in candidates)
            for entry in candidates:
                free = bool(entry.get("ignoreBudget"))
                left -= free
                if overflowed and not free:
                    if left > 0:
                        continue
                    break
                rolls = entry.get("useProbability") and entry.get("probability") != 100 and not self._sticky(entry)
                if rolls and not self.random() * 100 <= entry.get("probability", math.nan):
                    self.failed.append(entry)
                    continue
                entry["content"] = self.substitute(entry["content"])
                text += entry["content"] + "\n"
                if not free and base + self.count(text) >= budget:
                    overflowed = True
                    continue
                self.activated[entry["id"]] = entry
            successful = [e for e in candidates if not any(e is other for other in self.failed)]
            feeding = [e for e in successful if not e.get("preventRecursion")]
            following = 0
            if s["recursive"] and not overflowed and (feeding or (state == 3 and self.chunks)):
                following = 2
            if not following and not overflowed and 0 < s["min_activations"] > len(self.activated):
                depth = s["depth"] + self.skew
                too_deep = 0 < s["min_activations_depth_max"] < depth or depth > len(self.messages)
                if not too_deep:
                    following = 3
                    self.skew += 1
            if not following and levels:
                following = 2
                self.level = levels.pop(0)
            if following:
                chunk = "\n".join(e["content"] for e in feeding)
                if chunk:
                    self.chunks.append(chunk)
                    activated_text = chunk + "\n" + activated_text
            self.outcome.passes.append((state, following, [e["id"] for e in candidates], [e["id"] for e in successful]))
            state = following
        self.outcome.overflowed = overflowed
        self.outcome.activated = list(self.activated)
        self.outcome.contents = [e["content"] for e in self.activated.values()]
        self._set_timed()

    def _place(self, entry: Record) -> int:
        return next((at for at, other in enumerate(self.listed) if other is entry), -1)

    def _candidate(self, entry: Record, forced: Record | None) -> Record | None:
        if any(entry is other for other in self.failed) or entry["id"] in self.activated:
            return None
        recursion = self.state == 2
        sticky = self._sticky(entry)
        names = entry["characterFilter"]["names"]
        tags = entry["characterFilter"]["tags"]
        exclude = entry["characterFilter"]["isExclude"]
        delayed = entry["delayUntilRecursion"]
        if (
            entry["disable"]
            or (entry["triggers"] and self.trigger not in entry["triggers"])
            or (names and (self.speaker in names) == exclude)
            or (tags and self.speaker is not None and bool(set(tags) & set(self.tags)) == exclude)
            or self._delayed(entry)
            or (self._on_cooldown(entry) and not sticky)
            or (not recursion and delayed and not sticky)
            or (recursion and delayed and int(delayed) > self.level and not sticky)
            or (recursion and self.settings["recursive"] and entry["excludeRecursion"] and not sticky)
        ):
            return None
        if "@@activate" in entry["decorators"]:
            return entry
        if "@@dont_activate" in entry["decorators"]:
            return None
        if forced is not None:
            return forced
        if entry["constant"] or sticky:
            return entry
        return entry if self._matches(entry) else None

    def _matches(self, entry: Record) -> bool:
        text = self._haystack(entry)
        if not any(self._key(self.substitute(key), text, entry) for key in entry["key"]):
            return False
        if not entry["selective"] or not entry["keysecondary"]:
            return True
        found = [self._key(self.substitute(key), text, entry) for key in entry["keysecondary"]]
        logic = entry["selectiveLogic"]
        return [any(found), not all(found), not any(found), all(found)][logic]

    def _haystack(self, entry: Record) -> str:
        own = entry.get("scanDepth")
        depth = self.settings["depth"] + self.skew if own is None else own
        if depth <= 0:
            return ""
        joint = "\n\x01"
        text = "\x01" + joint.join(message.strip() for message in self.messages[: min(depth, 1000)])
        for name, source in zip(SOURCES, self.sources, strict=True):
            if entry.get(name) and source:
                text += joint + source
        if self.injects:
            text += joint + joint.join(self.injects)
        if self.chunks and self.state != 3:
            text += joint + joint.join(self.chunks)
        return text

    def _key(self, key: str, text: str, entry: Record) -> bool:
        return bool(key) and self._has(key.strip(), text, entry)

    def _has(self, key: str, text: str, entry: Record) -> bool:
        pattern = re.fullmatch(r"/([\s\S]+?)/([gimsuy]*)", key)
        if pattern and not re.search(r"(^|[^\\])/", pattern[1]):
            try:
                return JSRegex.compile(pattern[1].replace(r"\/", "/", 1), pattern[2]).test(text)
            except JSRegexSyntaxError:
                pass
        case = self.settings["case_sensitive"] if entry.get("caseSensitive") is None else entry["caseSensitive"]
        whole = self.settings["match_whole_words"] if entry.get("matchWholeWords") is None else entry["matchWholeWords"]
        if not case:
            key, text = key.lower(), text.lower()
        if not whole or len(re.split(r"\s+", key)) > 1:
            return key in text
        return re.search(rf"(?:^|\W)({re.escape(key)})(?:\Z|\W)", text, re.ASCII) is not None

    def _score(self, entry: Record) -> int:
        text = self._haystack(entry)
        primary = sum(self._has(key, text, entry) for key in entry.get("key", ()))
        secondary_keys = entry.get("keysecondary", ())
        secondary = sum(self._has(key, text, entry) for key in secondary_keys)
        if not entry.get("key"):
            return 0
        if secondary_keys and entry.get("selectiveLogic") == 0:
            return primary + secondary
        if secondary_keys and entry.get("selectiveLogic") == 3 and secondary == len(secondary_keys):
            return primary + secondary
        return primary

    def _groups(self, candidates: list[Record]) -> None:
        def remove(entry: Record) -> None:
            if candidates:
                at = next((at for at, other in enumerate(candidates) if other is entry), -1)
                del candidates[at]

        groups: dict[str, list[Record]] = {}
        for entry in candidates:
            for name in re.split(r",\s*", entry.get("group", "")):
                if name:
                    groups.setdefault(name, []).append(entry)
        order = sorted((name for name in groups if name.isdigit()), key=int)
        order += [name for name in groups if not name.isdigit()]
        has_sticky: set[str] = set()
        for name in order:
            members = groups[name]
            if any(self._sticky(e) for e in members):
                has_sticky.add(name)
                for entry in members:
                    if not self._sticky(entry):
                        remove(entry)
            for entry in members:
                if self._on_cooldown(entry):
                    remove(entry)
            for entry in members:
                if self._delayed(entry) and "decorators" in entry:
                    remove(entry)
        general = self.settings["use_group_scoring"]
        for name in order:
            members = groups[name]
            if name in has_sticky or not (general or any(e.get("useGroupScoring") for e in members)):
                continue
            scores = [self._score(e) for e in members]
            for entry, score in zip(list(members), scores, strict=True):
                own = entry.get("useGroupScoring")
                if score < max(scores) and (general if own is None else own):
                    remove(entry)
                    members[:] = [other for other in members if other is not entry]
        for name in order:
            members = groups[name]
            if name in has_sticky:
                continue
            if any(e.get("group", "") == name for e in self.activated.values()):
                for entry in members:
                    remove(entry)
                continue
            if len(members) <= 1:
                continue
            preferred = [e for e in members if e.get("groupOverride")]
            winner: Record | None = None
            if preferred:
                winner = max(preferred, key=lambda e: e["order"])
            else:
                weights = [e.get("groupWeight", 100) for e in members]
                roll = self.random() * sum(weights)
                reached = 0
                for entry, weight in zip(members, weights, strict=True):
                    reached += weight
                    if roll <= reached:
                        winner = entry
                        break
            for entry in members:
                if winner is not None and entry is not winner:
                    remove(entry)

    def _check_timed(self) -> None:
        n = len(self.messages)
        self.active: dict[str, list[int]] = {"sticky": [], "cooldown": []}
        for effect in self.active:
            self.timed.setdefault(effect, {})
        if self.dry_run:
            return
        for effect in ("sticky", "cooldown"):
            for key, record in list(self.timed[effect].items()):
                entry = next((e for e in self.listed if e["hash"] == record.get("hash")), None)
                if n <= record["start"] and not record["protected"]:
                    del self.timed[effect][key]
                elif entry is None:
                    if n >= record["end"]:
                        del self.timed[effect][key]
                elif not entry[effect]:
                    del self.timed[effect][key]
                elif n >= record["end"]:
                    del self.timed[effect][key]
                    if effect == "sticky" and entry["cooldown"]:
                        end = n + entry["cooldown"]
                        self.timed["cooldown"][entry["id"]] = {
                            "hash": entry["hash"],
                            "start": n,
                            "end": end,
                            "protected": True,
                        }
                        self.active["cooldown"].append(entry["hash"])
                else:
                    self.active[effect].append(entry["hash"])

    def _set_timed(self) -> None:
        if self.dry_run:
            return
        n = len(self.messages)
        for entry in self.activated.values():
            for effect in ("sticky", "cooldown"):
                if entry.get(effect) and entry["id"] not in self.timed[effect]:
                    record = {"start": n, "end": n + entry[effect], "protected": False}
                    if "hash" in entry:
                        record["hash"] = entry["hash"]
                    self.timed[effect][entry["id"]] = record

    def _sticky(self, entry: Record) -> bool:
        return entry.get("hash") in self.active["sticky"]

    def _on_cooldown(self, entry: Record) -> bool:
        return entry.get("hash") in self.active["cooldown"]

    def _delayed(self, entry: Record) -> bool:
        return bool(entry.get("delay")) and len(self.messages) < entry["delay"]
