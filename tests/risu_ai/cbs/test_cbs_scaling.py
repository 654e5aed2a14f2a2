"""Texts that take the time of their length and no more, though elsewhere some grow without end."""

from __future__ import annotations

import pytest

from tavernkit.risu_ai._cbs import CBSEngine, replace_assets, replace_inlays
from tavernkit.risu_ai._cbs.calculator import calculate
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.limits import MAX_CHARACTERS
from tavernkit.risu_ai._cbs.source import Origins
from tavernkit.risu_ai._js import replace_within
from tavernkit.risu_ai._objects import Asset, RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai.errors import CBSLimitError
from tests.quickness import linear_time

CONTEXT = CBSContext(char="Bel", user="Ann")


def expand(text: str, context: CBSContext = CONTEXT) -> tuple[str, list[str]]:
    warnings: list[str] = []
    with linear_time():
        expanded = CBSEngine().expand(text, context, warn=warnings.append)
    return expanded, warnings


@pytest.mark.parametrize("count", [60_000, 150_000], ids=["compiled", "scanned"])
def test_many_unknown_tags_are_kept(count: int) -> None:
    text = "{{x}}" * count
    assert expand(text)[0] == text


def test_many_unknown_tags_are_located_among_names_in_angle_brackets() -> None:
    expanded, warnings = expand("<user>{{x}}" * 60_000)
    assert expanded == "Ann{{x}}" * 60_000
    assert "(at 6)" in warnings[0]
    assert "(at 17)" in warnings[1]


def test_positions_lead_back_to_the_text_itself() -> None:
    text = "a<user>b<CHAR>c"  # becomes a{{user}}b{{CHAR}}c
    origins = Origins(text)
    assert [origins.of(at) for at in (0, 1, 2, 8, 9, 10, 11, 17, 18, 19)] == [0, 1, 1, 1, 7, 8, 8, 8, 14, 15]


def test_openers_beyond_the_slots_of_risuai_stay_open() -> None:
    expanded, warnings = expand("{{" * 400_000 + "}}a#}{#b")
    assert expanded == "{{" * 510 + "<" * (400_000 - 510) + "}}a#}<b"
    assert warnings == ["a tag is not closed (at 0)"]


def test_a_block_of_empty_lines_is_empty() -> None:
    assert expand("{{#when 1}}" + "\n" * 380_000 + "{{/when}}")[0] == ""
    assert expand("{{#when 1}}" + "\n" * 190_000 + " a \n\n b" + "\n" * 190_000 + "{{/when}}")[0] == " a \n\n b"


def test_an_expression_of_many_parentheses_is_calculated() -> None:
    with linear_time():
        assert calculate("1" + "+(1)" * 250_000, CONTEXT) == "250001"


@pytest.mark.parametrize("name", ["erase", "bkspc"])
def test_editing_a_long_text_again_and_again_hits_the_limit(name: str) -> None:
    text = "é" * 500_000 + f". x{{{{{name}}}}}" * 40_000
    expanded, warnings = expand(text)
    assert expanded == text
    assert "300000 steps" in warnings[0]


def test_an_each_whose_slots_are_all_empty_is_bounded_by_the_work() -> None:
    text = "{{#each ::keep " + "§" * 200_000 + " as x}}" + "{{slot::x}}" * 10_000 + "{{/each}}"
    expanded, warnings = expand(text)
    assert expanded == text
    assert "16000000 characters" in warnings[0]


def test_nothing_is_copied_for_a_replacement_that_only_looks_special() -> None:
    with linear_time():
        assert replace_within(MAX_CHARACTERS, "a" * 400_000, "a", "$x$$") == "$x$" * 400_000
        assert replace_within(MAX_CHARACTERS, "a" * 100_000, "a", "<$&>") == "<a>" * 100_000


def test_a_replacement_that_repeats_the_text_around_is_bounded() -> None:
    assert replace_within(MAX_CHARACTERS, "abc", "b", "[$`$'$&$$]") == "a[acb$]c"
    with pytest.raises(CBSLimitError):
        replace_within(MAX_CHARACTERS, "ab" * 5000, "b", "$`")


def test_long_lists_are_computed_once_and_not_ahead_for_every_tag() -> None:
    text = "".join(f"{{{{range::[{50_000 + number}]}}}}" for number in range(1000))
    expanded, warnings = expand(text)
    assert expanded == text
    assert "16000000 characters" in warnings[0]


def test_lists_that_would_be_too_long_are_refused_before_they_are_made() -> None:
    text = "{{range::[{{length::abc}}, 9999999]}}" * 8_000
    expanded, warnings = expand(text)
    assert expanded == text.replace("{{length::abc}}", "3")
    assert "100000 items" in warnings[0]


def test_a_range_that_runs_backwards_is_empty() -> None:
    assert expand("{{range::[5, 0, -1]}}")[0] == "[]"


def test_going_through_a_long_chat_counts_as_work() -> None:
    chat = RisuChat(messages=tuple(RisuMessage(role="char", data="a") for _ in range(50_000)))
    context = CBSContext(char=RisuCharacter(name="Bel", first_message="hi"), chat=chat, chat_index=49_999)
    for tag in ("{{userhistory}}", "{{previoususerchat}}", "{{messageidleduration}}"):
        expanded, warnings = expand(tag * 2000, context)
        assert expanded == tag * 2000
        assert "300000 steps" in warnings[0]


def test_inlays_that_nothing_closes_on_their_line_stay() -> None:
    text = "{{inlay::" * 100_000 + "\n}}"
    with linear_time():
        assert replace_inlays(text, {}) == text


def test_many_names_among_many_assets_are_looked_up() -> None:
    assets = tuple(Asset(f"asset {number}", f"{number}.png", "png") for number in range(20_000))
    context = CBSContext(char=RisuCharacter(name="Bel", assets=assets))
    with linear_time():
        shown = replace_assets("{{raw::asset 19999}}" * 20_000, context, str)
        assert shown == "19999.png" * 20_000
        warnings: list[str] = []
        text = "".join(f"{{{{raw::asset_{number}x}}}}" for number in range(20_000))
        assert replace_assets(text, context, str, warn=warnings.append).startswith("0.png1.png")
        assert len(warnings) == 1


@pytest.mark.parametrize("items", [5, 12])
def test_lists_inside_of_lists_hit_the_limit_before_they_take_long(items: int) -> None:
    text = "".join(f"{{{{slot::v{level}}}}}" for level in range(8))
    for level in range(8):
        text = f"{{{{#each {'§'.join('abcdefghijkl'[:items])} as v{level}}}}}{text}{{{{/each}}}}"
    assert len(text) < 500
    expanded, warnings = expand(text)
    assert expanded == text
    assert "300000 steps" in warnings[0]
