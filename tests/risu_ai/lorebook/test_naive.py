"""The engine against a scan that does everything the straightforward way."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from tavernkit.risu_ai._lorebook import LorebookEngine, LorebookEntry, LorebookSettings, LoreMessage, ScanInput
from tests.risu_ai.lorebook.naive import NaiveScan

WORDS = (
    *("dragon", "Dragon", "ice", "fire", "the ice fire", "tower", "İstanbul", "ß", "😀", " ", "x", "dra gon", "a,b"),
    *("{{// dragon}}", "{{comment: ice}}", "\n", "fire\nice"),
)
KEYS = (*WORDS, "", "dragon, ice", "/x|dragon/i", "/ice/i,/fire/g", "/x|ice/", "dragon,", " , ")
NUMBERS = ("0", "1", "2", "3", "5", "-1", "x", "", "100", "50", "2.9", "0x2", "1e2")
WITH_NUMBERS = (
    *("depth", "reverse_depth", "scan_depth", "activate_only_after", "activate_only_every", "is_greeting"),
    *("probability", "position pt_a", "position before_desc", "position nowhere", "role user", "role nobody"),
)
WITH_KEYS = ("additional_keys", "exclude_keys", "exclude_keys_all")
ALONE = (
    *("end", "@end", "activate", "dont_activate", "keep_activate_after_match", "dont_activate_after_match", ""),
    *("match_full_word", "match_partial_word", "ignore_on_max_context", "priority 1", "priority 5", "priority -3"),
    *("inject_lore A", "inject_lore lorebook 1", "inject_at A", "inject_replace ice", "inject_prepend", "recursive"),
    *("unrecursive", "no_recursive_search", "disable_ui_prompt system_prompt", "disable_ui_prompt x", "is_user_icon"),
)


def texts(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randint(0, 4)))


def decorator(dice: random.Random) -> str:
    mark = dice.choice(("@@", "@@", "@@@"))
    match dice.randint(0, 2):
        case 0:
            return f"{mark}{dice.choice(WITH_NUMBERS)} {dice.choice(NUMBERS)}"
        case 1:
            return f"{mark}{dice.choice(WITH_KEYS)} {','.join(dice.choices(WORDS, k=dice.randint(0, 2)))}"
        case _:
            return mark + dice.choice(ALONE)


def entry(dice: random.Random) -> LorebookEntry:
    decorators = [decorator(dice) for _ in range(dice.choice((0, 0, 0, 1, 1, 2, 3)))]
    return LorebookEntry(
        key=dice.choice(KEYS),
        secondary_key=dice.choice(("", *WORDS)),
        order=dice.choice((1, 2, 3, "2", 100)),
        comment=dice.choice(("", "", "A", "B")),
        content="\n".join((*decorators, texts(dice))),
        mode=dice.choice(("normal", "normal", "normal", "child", "folder")),
        always_active=dice.random() < 0.2,
        selective=dice.random() < 0.3,
        use_regex=dice.random() < 0.15,
        id=dice.choice((None, None, "", "p", "q")),
    )


@given(st.integers(0, 2**40))
def test_the_engine_finds_what_a_naive_scan_finds(seed: int) -> None:
    dice = random.Random(seed)
    entries = [entry(dice) for _ in range(dice.randint(1, 9))]
    messages = [LoreMessage(dice.choice(("user", "char")), texts(dice)) for _ in range(dice.randint(0, 6))]
    settings = LorebookSettings(
        scan_depth=dice.choice((0, 1, 2, 3, 5, 8, -1)),
        token_budget=dice.choice((800, 10, 25, 0)),
        full_word=dice.random() < 0.3,
        recursive=dice.random() < 0.6,
    )
    variables = {
        name: "true" for name in ("__internal_ka_p", "__internal_da_q", "__internal_ka_") if dice.random() < 0.1
    }
    greeting, chances = dice.choice((-1, 0, 1)), (0.0, 0.5, 0.3, 0.99)

    rolls = itertools.cycle(chances)
    naive = NaiveScan([*entries], messages, settings, greeting, lambda: next(rolls), variables)
    expected = naive.run()
    draws = itertools.cycle(chances)
    result = LorebookEngine().scan(
        ScanInput(
            entries=entries,
            messages=messages,
            settings=settings,
            greeting_index=greeting,
            random=lambda: next(draws),
            chat_variable=lambda name: variables.get(name, "null"),
        )
    )
    assert [
        (each.index, each.source, each.text, each.pos, each.depth, each.role, each.order, each.priority, each.inject)
        for each in result.actives
    ] == [
        (each.index, each.source, each.text, each.pos, each.depth, each.role, each.order, each.priority, each.inject)
        for each in expected
    ]
    assert [(hit.source, hit.key) for hit in result.hits] == naive.hits
    assert dict(result.markers) == naive.markers
    assert next(rolls) == next(draws)
