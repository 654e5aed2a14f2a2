from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.errors import WarningLog
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._lorebook import (
    LorebookEngine,
    LorebookEntry,
    LorebookResult,
    LorebookSettings,
    LoreMessage,
    ScanInput,
    lore_of,
)
from tavernkit.risu_ai._lorebook.result import LOOKED_BACK
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuModule, RisuSettings

ENGINE = LorebookEngine()


def scan(entries: list[LorebookEntry], *texts: str, **settings: object) -> LorebookResult:
    messages = [LoreMessage("user", text) for text in texts]
    chosen = LorebookSettings(**settings)  # type: ignore[arg-type]
    return ENGINE.scan(ScanInput(entries=entries, messages=messages, settings=chosen))


def test_an_active_entry_says_which_key_was_found_where() -> None:
    result = scan([LorebookEntry(key="elf, dragon", comment="Dragons", content="They burn.")], "A DRAGON!")
    explanation = result.explain("Dragons")
    assert explanation.active
    assert explanation.reason == "key 'dragon' in message #0 (user)"
    assert "in  Dragons  key 'dragon'" in result.table()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (LorebookEntry(key="unicorn"), "no key was found ('unicorn')"),
        (LorebookEntry(key="dragon", content="@@probability 10\nx"), "rolled 50"),
        (LorebookEntry(key="dragon", content="@@dont_activate\nx"), "@@dont_activate"),
        (LorebookEntry(key="dragon", content="@@exclude_keys fire\nx"), "excluded key"),
        (LorebookEntry(key="dragon", content="@@activate_only_after 9\nx"), "activate_only_after 9"),
        (LorebookEntry(key="dragon", secondary_key="ice", selective=True), "no key was found ('ice')"),
        (LorebookEntry(key="dragon", content="x" * 900), "needs 900 tokens, 800 are left"),
        (LorebookEntry(key="dragon", content="@@inject_lore Gone\nx"), "'Gone', which is not active"),
        (LorebookEntry(key="dragon", mode="child", id="p"), "child"),
    ],
)
def test_an_entry_that_is_out_says_why(entry: LorebookEntry, why: str) -> None:
    result = scan([entry], "dragon fire")
    assert not result.actives
    assert why in result.explain(0).reason


@pytest.mark.parametrize(
    ("text", "full_word", "found"),
    [
        ("a red dragon", False, True),
        ("a reddragon", False, True),
        ("a reddragon", True, False),
        ("a red dragon", True, False),  # a key with a blank is never one word
    ],
)
def test_blanks_in_keys_are_nothing_to_partial_matching_only(text: str, full_word: bool, found: bool) -> None:
    entries = [LorebookEntry(key="red dragon"), LorebookEntry(key="reddragon")]
    assert scan(entries, text, full_word=full_word).explain(0).active is found


def test_text_of_an_active_entry_calls_up_others_in_the_same_pass() -> None:
    entries = [
        LorebookEntry(key="b", comment="third", content="@@unrecursive\nz"),
        LorebookEntry(key="dragon", comment="first", content="mentions phoenix"),
        LorebookEntry(key="phoenix", comment="second", content="b"),
    ]
    result = scan(entries, "dragon")
    assert {lore.source for lore in result.actives} == {"first", "second", "third"}
    assert result.explain("third").reason == "key 'b' in lore 'second'"
    assert len(scan(entries, "dragon", recursive=False).actives) == 1


def test_what_is_no_entry_is_reported_and_left_out() -> None:
    log = WarningLog()
    bel = RisuCharacter(name="Bel", raw={"loreSettings": {"scanDepth": 2}})
    context = CBSContext(
        char=dataclasses.replace(bel, lore=("nonsense",)),
        chat=RisuChat(local_lore=({"key": "a", "content": "b"},)),
        settings=RisuSettings(
            modules=(RisuModule(id="m", lore=({"key": "c"},)),),
            enabled_modules=("m",),
        ),
    )
    sources = lore_of(context, warn=log)
    assert [entry.key for entry in sources.entries] == ["a", "c"]
    assert sources.settings.scan_depth == 2
    assert "entry 0 of character Bel" in log.messages[0]


SPOKEN = [f"word{number}" for number in range(4)]


@pytest.mark.parametrize(
    ("depth", "seen"),
    [
        (2, [2, 3]),
        (2.5, [1, 2, 3]),  # slice(1.5, 4)
        (4.5, [0, 1, 2, 3]),  # slice(-0.5, 4): the sign is lost with the fraction
        (5.5, [3]),
        (0.5, [3]),
        (math.inf, [0, 1, 2, 3]),
        (-math.inf, []),
        (math.nan, [0, 1, 2, 3]),
    ],
)
def test_odd_scan_depths_look_where_javascripts_slice_does(depth: float, seen: list[int]) -> None:
    entries = [LorebookEntry(key=word, comment=str(number), order=number) for number, word in enumerate(SPOKEN)]
    result = scan(entries, *SPOKEN, scan_depth=depth)
    assert [lore.source for lore in result.actives] == [str(number) for number in seen]


def test_a_priority_that_is_no_number_is_as_good_as_its_neighbours() -> None:
    entries = [
        LorebookEntry(always_active=True, comment="one", order=1, content="a"),
        LorebookEntry(always_active=True, comment="odd", order=2, content="@@priority high\nb"),
        LorebookEntry(always_active=True, comment="three", order=3, content="c"),
    ]
    assert [lore.source for lore in scan(entries, token_budget=2).actives] == ["one", "odd"]


def test_an_entry_without_an_order_stays_among_its_neighbours() -> None:
    raw = [{"alwaysActive": True, "comment": str(n), **({} if n == 1 else {"insertorder": n})} for n in range(3)]
    entries = [LorebookEntry.from_json(each) for each in raw]
    result = scan([entry for entry in entries if entry is not None])
    assert [lore.source for lore in result.actives] == ["2", "1", "0"]


def test_a_budget_that_is_no_number_leaves_no_lore() -> None:
    result = scan([LorebookEntry(always_active=True, content="")], token_budget=math.nan)
    assert not result.actives
    assert "over the lore budget" in result.explain(0).reason


def test_an_empty_text_to_replace_puts_the_lore_first() -> None:
    entries = [
        LorebookEntry(always_active=True, comment="target", content="text"),
        LorebookEntry(always_active=True, content="@@inject_lore target\n@@inject_replace\nlore "),
    ]
    assert [lore.text for lore in scan(entries).actives] == ["loretext"]


def test_a_child_is_rolled_for_again_with_its_parents_text() -> None:
    entries = [
        LorebookEntry(key="nowhere", id="p", comment="parent", content="@@probability 60\nparent text"),
        LorebookEntry(key="x", id="p", mode="child", content="own", order=2),
        LorebookEntry(always_active=True, content="again", order=1),
    ]
    dice = iter([0.9, 0.9, 0.9, 0.1, 0.9])  # parent and child in two passes, the parent in a third
    result = ENGINE.scan(ScanInput(entries=entries, random=lambda: next(dice)))
    assert [(lore.source, lore.text) for lore in result.actives] == [("lorebook 2", "again"), ("parent", "parent text")]


WORDS = ["ash", "bel", "cor dun", "El", "fen", "a"]
entry_strategy = st.builds(
    LorebookEntry,
    key=st.lists(st.sampled_from(WORDS), max_size=3).map(", ".join),
    secondary_key=st.lists(st.sampled_from(WORDS), max_size=2).map(", ".join),
    order=st.integers(0, 5),
    comment=st.sampled_from(["", "one", "two"]),
    content=st.builds(
        lambda lines, text: "\n".join([*lines, text]),
        st.lists(
            st.sampled_from(
                [
                    "@@additional_keys fen", "@@exclude_keys a", "@@exclude_keys_all ash, bel", "@@priority 3",
                    "@@no_recursive_search", "@@match_full_word", "@@scan_depth 2", "@@probability 60", "@@unrecursive",
                    "@@keep_activate_after_match", "@@@activate", "@@depth 2", "@@inject_lore one", "@@end",
                ]
            ),
            max_size=3,
        ),
        st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join),
    ),
    mode=st.sampled_from(["normal", "normal", "child"]),
    always_active=st.sampled_from([False, False, True]),
    selective=st.booleans(),
    use_regex=st.sampled_from([False, False, False, True]),
    id=st.sampled_from([None, "x", "y"]),
)  # fmt: skip


@given(
    st.lists(entry_strategy, max_size=8),
    st.lists(st.lists(st.sampled_from([*WORDS, "{{// ash}}", "x"]), max_size=5).map(" ".join), max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_waiting_for_keys_changes_nothing(
    entries: list[LorebookEntry], texts: list[str], full_word: bool, recursive: bool
) -> None:
    """The compiled scan gives what looking at every entry in every pass gives."""

    def run(*, everything: bool) -> object:
        lore = ENGINE.compile(entries)
        if everything:
            lore = dataclasses.replace(lore, always_considered=frozenset(range(len(entries))))
        given = ScanInput(
            entries=lore,
            messages=[LoreMessage("user", text) for text in texts],
            settings=LorebookSettings(full_word=full_word, recursive=recursive, token_budget=40),
            random=random.Random(3).random,
        )
        result = ENGINE.scan(given)
        return result.actives, result.hits, result.markers, result.total_tokens

    assert run(everything=False) == run(everything=True)


@pytest.mark.parametrize(
    ("depth", "texts", "hint"),
    [
        (1, ("dragon", "b", "c"), "; 'dragon' is in message #0, which a scan depth of 1 does not reach"),
        (
            4,
            ("dragon", "b", "c"),
            (
                "; 'dragon' is in message #0, which a scan depth of 4 does not reach"
                " in a chat of 3 messages: RisuAI then looks at the last 1 only"
            ),
        ),
        (2, ("a", "b", "c"), ""),
    ],
)
def test_a_key_that_the_scan_depth_does_not_reach_is_hinted_at(depth: int, texts: tuple[str, ...], hint: str) -> None:
    reason = scan([LorebookEntry(key="elf, dragon")], *texts, scan_depth=depth).explain(0).reason
    assert reason.startswith(f"no key was found ('elf', 'dragon'){hint}")
    assert hint or reason == "no key was found ('elf', 'dragon')"


def test_only_a_few_messages_are_looked_through_for_a_hint() -> None:
    texts = ["dragon", *["x"] * (LOOKED_BACK + 1)]
    assert "is in message" not in scan([LorebookEntry(key="dragon")], *texts, scan_depth=1).explain(0).reason
    assert "is in message" in scan([LorebookEntry(key="dragon")], *texts[:-1], scan_depth=1).explain(0).reason
