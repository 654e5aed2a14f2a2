"""What must hold for any books and any chat; the property tests and the fuzzers share it."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tavernkit.silly_tavern._world_info import (
    ScanData,
    ScanInput,
    SelectedBooks,
    Speaker,
    WorldBook,
    WorldInfoEngine,
    WorldInfoResult,
    WorldInfoSettings,
    import_world,
    split_keys,
)
from tavernkit.silly_tavern._world_info.entry import TEMPLATE
from tests.silly_tavern.world_info.reference_scan import SOURCES, Reference

WORDS = [
    "cat",
    "Cat",
    "cats",
    "concat",
    "iron gate",
    "dragon",
    "DRAGON",
    "é",
    "龍",
    "Mira",
    "a",
    "b1",
    "x_y",
    "İstanbul",
]
BITS = [".", "", ",", "\n", "{{user}}", "ΣΑΣ", "🐉", "und", "/", "(", "\ud83d"]
PLAIN_KEYS = ["gate", "iron  gate", "σας", "🐉", "(", "dragon cat", "\ud83d", "undo", "1", "İ"]
ODD_KEYS = ["", " ", "{{user}}", "{{noop}}", "<user>", "/cat/i", "/\\bdragon\\b/", "/(/", "/a/b/", "/^\x01cat/m"]
ODD_KEYS += ["/(iron|concat) ?gate/i", "/c[aA]ts?/", "/MIRA/iu", "/dragon\\n.?cat/", "/(?=dragon)dr/", "/(drag)?on+/"]
ODD_KEYS += ["cat\n\x01cat", "/x*$/", "/cat/y", "/cat/ii", "/iron.+cat/s", "\x01"]


class Maker:
    """Makes scenarios in which much happens: a seed gives the same one again."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def often(self, chance: float = 0.8) -> bool:
        return self._random.random() < chance

    def rarely(self) -> bool:
        return self._random.random() < 0.1

    def one(self, *values: Any) -> Any:
        return self._random.choice(values)

    def sentence(self) -> str:
        chosen = [self.one(*WORDS) if self.often(0.7) else self.one(*BITS) for _ in range(self._random.randrange(6))]
        return self.one(" ", " ", "", "-").join(chosen)

    def key(self) -> str:
        kind = self._random.random()
        if kind < 0.7:
            return self.one(*WORDS)
        if kind < 0.85:
            return self.one(" {} ", "{}", "{}x").format(self.one(*WORDS, *PLAIN_KEYS))
        return self.one(*ODD_KEYS)

    def keys(self, most: int) -> list[str]:
        return [self.key() for _ in range(self._random.randrange(most + 1))]

    def entry(self, uid: int) -> dict[str, Any]:
        decorator = self.one("@@activate\n", "@@dont_activate\n", "@@other\n@@@activate\n") if self.rarely() else ""
        return {
            "uid": uid,
            "key": [self.key(), *self.keys(2)] if self.often(0.9) else [],
            "keysecondary": [] if self.often(0.6) else self.keys(2),
            "content": decorator + self.one("", "", "{{user}} ") + self.sentence(),
            "constant": self.rarely(),
            "selective": self.often(),
            "selectiveLogic": self.one(0, 1, 2, 3),
            "order": self.one(0, 1, 2, 3),
            "position": self._random.randrange(8),
            "disable": self.rarely(),
            "ignoreBudget": self.rarely(),
            "excludeRecursion": self.rarely(),
            "preventRecursion": self.rarely(),
            **{name: self.rarely() for name in SOURCES},
            "delayUntilRecursion": 0 if self.often() else self.one(True, 1, 2, 3),
            "probability": 100 if self.often() else self.one(50, 0),
            "useProbability": self.often(),
            "group": "" if self.often(0.5) else self.one("g", "g", "g, h", "2", "h,2"),
            "groupOverride": self.rarely(),
            "groupWeight": self.one(100, 1, 0),
            "scanDepth": None if self.often() else self.one(0, 1, 3),
            "caseSensitive": self.one(None, None, True, False),
            "matchWholeWords": self.one(None, None, True, False),
            "useGroupScoring": self.one(None, None, True, False),
            "outletName": "o",
            "sticky": None if self.often(0.7) else self.one(1, 2, 4),
            "cooldown": None if self.often(0.7) else self.one(1, 2, 4),
            "delay": 2 if self.rarely() else None,
            "triggers": self.one(["normal"], ["swipe"]) if self.rarely() else [],
            "characterFilter": {
                "isExclude": self.often(0.5),
                "names": ["Toren"] if self.rarely() else [],
                "tags": ["t1"] if self.rarely() else [],
            },
        }

    def forced(self) -> dict[str, Any]:
        extra = {"probability": self.one(100, 40), "useProbability": self.often(0.5), "group": self.one("g", "h")}
        extra |= {"sticky": 2, "ignoreBudget": self.often(0.5), "key": self.keys(2), "useGroupScoring": self.often(0.5)}
        base = {"world": self.one("book0", "nowhere"), "uid": self.one(0, 1, 2, 3), "order": self.one(0, 1, 2, 3)}
        base |= {"content": self.sentence(), "position": 0}
        return base | {name: value for name, value in extra.items() if self.often(0.4)}

    def scenario(self) -> dict[str, Any]:
        books = [[self.entry(uid) for uid in range(self._random.randrange(9))] for _ in range(self.one(1, 1, 2))]
        forced = [self.forced() for _ in range(self.one(0, 0, 1, 2))]
        return {
            "books": books,
            "turns": [[self.sentence() for _ in range(self._random.randrange(4))] for _ in range(self.one(1, 2, 3))],
            "settings": {
                "depth": self.one(0, 1, 2, 3),
                "min_activations": self.one(0, 0, 0, 2, 5),
                "min_activations_depth_max": self.one(0, 0, 2),
                "budget": self.one(100, 100, 25, 1),
                "budget_cap": self.one(0, 0, 12, 30),
                "recursive": self.often(0.6),
                "case_sensitive": self.often(0.4),
                "match_whole_words": self.often(0.5),
                "use_group_scoring": self.often(0.3),
                "max_recursion_steps": self.one(0, 0, 0, 2),
            },
            "sources": [self.one("", "the iron gate", "cat", "dragon", "龍") for _ in SOURCES],
            "injects": [self.sentence() for _ in range(self.one(0, 0, 1, 2))],
            "speaker": self.one(None, "Toren", "Lyra"),
            "tags": self.one([], ["t1"]),
            "forced": list({(one["world"], one["uid"]): one for one in forced}.values()),
            "seed": self._random.randrange(1000),
            "dry_run": self.rarely(),
        }


scenarios = st.integers(0, 2**64).map(lambda seed: Maker(seed).scenario())


def substitute(text: str) -> str:
    return text.replace("{{user}}", "Mira").replace("<user>", "Mira").replace("{{noop}}", "")


def count(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // 3)


def sort(entries: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(entries, key=lambda pair: -pair[1]["order"])


def check_scan_equals_the_straightforward_one(
    scenario: dict[str, Any], make_book: Callable[[str, Any], WorldBook] = WorldBook
) -> None:
    """Run several turns on both; everything that a scan gives has to be equal in each."""
    engine = WorldInfoEngine()
    names = [f"book{number}" for number in range(len(scenario["books"]))]
    books = tuple(
        make_book(name, {"entries": {str(entry["uid"]): entry for entry in book}})
        for name, book in zip(names, scenario["books"], strict=True)
    )
    listed = sort([(book.name, dict(entry.raw)) for book in books for entry in book.entries])
    timed: dict[str, Any] = {}
    expected_timed: dict[str, Any] = {}
    messages: list[str] = []
    given, expected_rolls = random.Random(scenario["seed"]), random.Random(scenario["seed"])
    for turn in scenario["turns"]:
        messages = [*reversed(turn), *messages]
        result = engine.scan(
            ScanInput(
                messages=messages,
                books=SelectedBooks(global_=books),
                settings=WorldInfoSettings(**scenario["settings"]),
                max_context=100,
                count_tokens=count,
                expand=substitute,
                random=given.random,
                scan_data=ScanData(**dict(zip(ScanData.__slots__, scenario["sources"], strict=True))),
                injects=[text for text in scenario["injects"] if text],
                speaker=Speaker(f"{scenario['speaker']}.png", frozenset(scenario["tags"]))
                if scenario["speaker"]
                else None,
                timed_state=timed,
                forced=scenario["forced"],
                dry_run=scenario["dry_run"],
                warn=lambda message: None,
            )
        )
        expected = Reference(
            entries=copy.deepcopy(listed),
            messages=messages,
            settings=scenario["settings"],
            max_context=100,
            count=count,
            substitute=substitute,
            random=expected_rolls.random,
            sources=scenario["sources"],
            injects=[text for text in scenario["injects"] if text],
            trigger="normal",
            speaker=scenario["speaker"],
            tags=scenario["tags"],
            timed=expected_timed,
            forced=scenario["forced"],
            dry_run=scenario["dry_run"],
        ).run()
        assert [one.entry.identity for one in result.activated] == expected.activated
        assert [one.content for one in result.activated] == expected.contents
        assert [(one.type, one.next, [*one.new], [*one.successful]) for one in result.passes] == expected.passes
        assert result.overflowed == expected.overflowed
        assert result.timed_state == expected.timed
        assert given.getstate() == expected_rolls.getstate()
        check_explanations(result)
        timed, expected_timed = result.timed_state, expected.timed


def check_explanations(result: WorldInfoResult) -> None:
    """Every entry is explained, and exactly the activated ones are explained as being in."""
    explained = list(result.explanations)
    assert all(one.text for one in explained)
    active = {one.entry.identity for one in explained if one.active}
    assert active == {one.entry.identity for one in result.activated}
    assert result.table(everything=True).count("\n") >= len(explained)


scalars = (
    st.none() | st.booleans() | st.integers(-3, 2000) | st.floats(allow_nan=False) | st.sampled_from(["", "x", "2"])
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["0", "a", "key", "names"]), inner),
    max_leaves=6,
)
odd_entries = st.dictionaries(
    st.sampled_from([*TEMPLATE, "uid", "world", "characterFilter", "extensions"]), json_values
)
odd_worlds = json_values | st.fixed_dictionaries(
    {"entries": json_values | st.lists(odd_entries, max_size=3) | st.dictionaries(st.text(max_size=2), odd_entries)}
)
imports = st.fixed_dictionaries(
    {"entries": st.lists(json_values, max_size=2), "data": st.lists(json_values, max_size=2)},
    optional={"lorebookVersion": scalars, "kind": st.just("memory"), "type": st.just("risu")},
)


def check_any_json_can_be_read_converted_and_scanned(world: Any) -> None:
    """No JSON whatever stops reading, converting, writing or scanning, and none of it is lost."""
    book = WorldBook.from_json(world, name="Odd")
    assert book.to_json() == world
    assert json.loads(book.dumps()) == world
    book.to_character_book()
    WorldBook.from_character_book(world, name="Odd")
    result = WorldInfoEngine().scan(
        ScanInput(
            messages=["x", "2 x"],
            books=SelectedBooks(global_=(book,)),
            max_context=100,
            count_tokens=count,
            timed_state={"sticky": world, "cooldown": {"Odd.0": world}},
            forced=[world],
            warn=lambda message: None,
        )
    )
    check_explanations(result)


def check_any_file_is_imported_or_refused(world: Any) -> None:
    """An import gives a book that can be scanned, or a reason."""
    warnings: list[str] = []
    book = import_world("file.json", json.dumps(world), warn=warnings.append)
    assert (book is None) == bool(warnings)
    if book is not None:
        check_any_json_can_be_read_converted_and_scanned(book.to_json())


def check_typed_keys_keep_their_letters(text: str) -> None:
    """Splitting typed keys loses nothing but commas and blanks."""
    letters = "".join(split_keys(text))
    assert re.sub(r"[,\s]", "", letters) == re.sub(r"[,\s]", "", text)
