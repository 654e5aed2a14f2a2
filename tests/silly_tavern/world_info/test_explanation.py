from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.silly_tavern._world_info import (
    Explanation,
    Reason,
    ScanData,
    SelectedBooks,
    Speaker,
    WorldInfoEngine,
    WorldInfoSettings,
)
from tavernkit.silly_tavern._world_info.scan_input import ScanInput
from tests.silly_tavern.world_info.scanning import count_words, make_book, scan

CAT = {"key": ["cat"], "content": "Cats purr."}


def explain(fields: dict[str, object], *messages: str, **given: Any) -> Explanation:
    return scan(make_book({**CAT, **fields}), *(messages or ("a cat",)), **given).explain(0)


def test_key_match_says_which_key_and_where() -> None:
    explanation = explain({"key": ["dog", "cat"]}, "nothing", "My cat!")
    assert explanation.active
    assert explanation.reason is Reason.KEY
    assert explanation.match is not None
    assert (explanation.match.key, explanation.match.offset) == ("cat", 3)
    assert explanation.match.piece is not None
    assert (explanation.match.piece.origin, explanation.match.piece.index) == ("message", 1)
    assert explanation.text == "key 'cat' found in message 2 from the end: …My cat!…"
    assert str(explanation) == f"Lore.0: in, {explanation.text}"


@pytest.mark.parametrize(
    ("fields", "given", "reason", "words"),
    [
        ({"disable": True}, {}, Reason.DISABLED, "switched off"),
        ({"triggers": ["swipe"]}, {}, Reason.TRIGGER, "only for swipe; this is normal"),
        ({"characterFilter": {"names": ["Ann"]}}, {}, Reason.CHARACTER_FILTER, "no character is speaking"),
        (
            {"characterFilter": {"names": ["Ann"], "isExclude": True}},
            {"speaker": Speaker("Ann.png")},
            Reason.CHARACTER_FILTER,
            "not for Ann; Ann is speaking",
        ),
        (
            {"characterFilter": {"tags": ["t1"]}},
            {"speaker": Speaker("Ann.png", frozenset({"t2"}))},
            Reason.TAG_FILTER,
            "only for tag t1; the character has t2",
        ),
        ({"delay": 4}, {}, Reason.DELAY, "waits for 4 messages; there are 1"),
        ({"content": "@@dont_activate\nx"}, {}, Reason.DONT_ACTIVATE, "@@dont_activate"),
        ({"key": []}, {}, Reason.NO_KEYS, "no keys"),
        ({"key": ["dog"]}, {}, Reason.NO_KEY_FOUND, "no key was found ('dog')"),
        (
            {"keysecondary": ["dog", "a"], "selectiveLogic": 3},
            {},
            Reason.SECONDARY_KEYS,
            "AND ALL of 'dog', 'a'; found: 'a'",
        ),
        ({"probability": 30}, {"random": lambda: 0.5}, Reason.PROBABILITY, "rolled 50.0, above its probability of 30%"),
        (
            {"content": "one two three"},
            {"max_context": 8},
            Reason.BUDGET,
            "needs 3 tokens, but only 2 of the budget of 2",
        ),
        ({"content": "@@activate\nx"}, {}, Reason.ACTIVATE, "@@activate"),
        ({"constant": True}, {}, Reason.CONSTANT, "constant"),
        ({"constant": True, "probability": 60}, {"random": lambda: 0.5}, Reason.CONSTANT, "rolled 50.0 of 60%"),
        ({"forced": True}, {"forced": [{"world": "Lore", "uid": 0}]}, Reason.FORCED, "from outside"),
    ],
)
def test_reason(fields: dict[str, object], given: dict[str, object], reason: Reason, words: str) -> None:
    explanation = explain(fields, **given)
    assert explanation.reason is reason
    assert words in explanation.text
    assert explanation.active is reason.activates


def test_waiting_for_recursion_that_did_not_come() -> None:
    explanation = explain({"delayUntilRecursion": True}, "a cat", settings=WorldInfoSettings(max_recursion_steps=1))
    assert explanation.reason is Reason.DELAYED_RECURSION


def test_waiting_for_a_level_that_was_not_reached() -> None:
    settings = WorldInfoSettings(max_recursion_steps=2)
    levels: list[dict[str, object]] = [{**CAT, "delayUntilRecursion": level} for level in (5, 1)]
    book = make_book(*levels, {"constant": True, "content": "x"})
    explanation = scan(book, "a cat", settings=settings).explain(0)
    assert explanation.reason is Reason.RECURSION_LEVEL
    assert explanation.text == "waits for level 5 of recursion; level 1 was reached"


def test_excluded_from_the_only_passes_it_waited_for() -> None:
    book = make_book({**CAT, "delayUntilRecursion": True, "excludeRecursion": True}, {"constant": True, "content": "x"})
    explanation = scan(book, "a cat").explain(0)
    assert explanation.reason is Reason.EXCLUDED_FROM_RECURSION
    assert explanation.text == "takes no part in recursion"


def test_cooldown_says_until_when() -> None:
    book = make_book({**CAT, "cooldown": 3})
    first = scan(book, "a cat")
    later = scan(book, "a cat", "a cat", timed_state=first.timed_state)
    assert later.explain(0).reason is Reason.COOLDOWN
    assert later.explain(0).verdict.until == 4
    assert later.explain(0).text == "on cooldown until message 4; there are 2"


def test_sticky_says_so() -> None:
    book = make_book({**CAT, "sticky": 3})
    first = scan(book, "a cat")
    assert scan(book, "a", "a cat", timed_state=first.timed_state).explain(0).reason is Reason.STICKY


def test_group_loser_names_the_winner() -> None:
    result = scan(make_book({**CAT, "group": "g"}, {**CAT, "group": "g", "groupOverride": True}), "cat")
    assert result.explain(0).reason is Reason.GROUP
    assert (result.explain(0).verdict.group, result.explain(0).verdict.lost_to) == ("g", "Lore.1")
    assert result.explain(0).text == "lost to Lore.1 in group 'g'"


def test_group_that_is_taken_already() -> None:
    settings = WorldInfoSettings(recursive=True)
    book = make_book({**CAT, "group": "g"}, {"key": ["purr"], "content": "x", "group": "g"})
    assert "of which another entry is active" in scan(book, "cat", settings=settings).explain(1).text


def test_entries_after_the_budget_is_used_up_say_what_they_need() -> None:
    book = make_book({**CAT, "content": "a b c", "order": 900}, {**CAT, "content": "d e"})
    result = scan(book, "cat", max_context=8)
    assert result.overflowed
    assert result.explain(0).verdict.needed == 3
    assert result.explain(1).text == "needs 2 tokens, but the budget of 2 was used up before it"


@pytest.mark.parametrize(
    ("fields", "messages", "hint"),
    [
        ({}, ("x", "y", "a cat"), "'cat' is in message 3 from the end, beyond its scan depth of 2"),
        ({"scanDepth": 0}, ("a cat",), "but its scan depth is 0"),
        ({"caseSensitive": True}, ("a CAT",), "'cat' is in the last message in another case"),
        ({}, ("cats",), "'cat' is in the last message only as part of a word"),
    ],
)
def test_near_misses_are_pointed_out(fields: dict[str, object], messages: tuple[str, ...], hint: str) -> None:
    explanation = explain(fields, *messages)
    assert explanation.reason is Reason.NO_KEY_FOUND
    assert hint in explanation.text


def test_near_miss_in_a_text_it_does_not_look_at() -> None:
    explanation = explain({}, "x", scan_data=ScanData(scenario="the cat's house"))
    assert "'cat' is in the scenario, which it does not scan" in explanation.text


def test_near_miss_in_recursion() -> None:
    book = make_book({**CAT, "excludeRecursion": True}, {"constant": True, "content": "the cat"})
    text = scan(book, "x").explain(0).text
    assert "'cat' is in lore activated in pass 1, but it is excluded from recursion" in text


def test_table_shows_what_is_in_first_and_counts_the_rest() -> None:
    book = make_book(
        {"key": ["dog"], "comment": "unmatched"},
        {**CAT, "disable": True, "comment": "off"},
        {**CAT, "comment": "on"},
    )
    table = scan(book, "a cat").table()
    assert table.splitlines() == [
        "     entry   title  why",
        "in   Lore.2  on     key 'cat' found in the last message: …a cat…",
        "out  Lore.1  off    switched off",
        "1 more entries: none of their keys is in any text",
    ]
    assert "unmatched" in scan(book, "a cat").table(everything=True)


def test_explanations_are_a_sequence_in_list_order() -> None:
    explanations = scan(make_book(CAT, {**CAT, "order": 200}, {}), "cat").explanations
    assert [one.entry.uid for one in explanations] == [1, 0, 2]
    assert [one.active for one in explanations[:2]] == [True, True]
    assert explanations[-1].reason is Reason.NO_KEYS


def test_same_uid_in_two_books_needs_the_book() -> None:
    books = SelectedBooks(global_=(make_book(CAT, name="A"), make_book({}, name="B")))
    given = ScanInput(messages=["cat"], books=books, max_context=100, count_tokens=count_words)
    result = WorldInfoEngine().scan(given)
    assert result.explain(0, book="A").active
    assert not result.explain(0, book="B").active
    with pytest.raises(ConfigError, match="pass book="):
        result.explain(0)
    with pytest.raises(ConfigError, match="no World Info entry 7"):
        result.explain(7)


def test_omissions_are_what_was_called_up_and_left_out() -> None:
    book = make_book({**CAT, "probability": 0, "comment": "never"}, {**CAT, "disable": True}, {"key": ["dog"]})
    (omission,) = scan(book, "cat").omissions
    assert (omission.kind, omission.id, omission.name) == ("lore_entry", "Lore.0", "never")
    assert "probability" in omission.reason


def test_blank_key_needs_no_text() -> None:
    assert explain({"key": [" "]}, "x").text == "its key ' ' needs no text"


def test_regex_and_macro_keys_say_where_too() -> None:
    explanation = explain({"key": ["/c.t/"]}, "x", "the cat")
    assert explanation.match is not None
    assert explanation.match.piece is not None
    assert (explanation.match.piece.index, explanation.match.offset) == (1, 4)
    explanation = explain({"key": ["{{char}}"]}, "x", "hi Ann", expand=lambda text: text.replace("{{char}}", "Ann"))
    assert explanation.match is not None
    assert (explanation.match.key, explanation.match.offset) == ("{{char}}", 3)


def test_explaining_does_not_change_the_state_to_store() -> None:
    book = make_book({**CAT, "sticky": 2})
    result = scan(book, "cat")
    stored = dict(result.timed_state)
    result.table(everything=True)
    assert result.timed_state == stored
