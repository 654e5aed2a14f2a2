from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

from tavernkit.risu_ai import Builder, RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai._chat.groups import speakers
from tavernkit.risu_ai.errors import PromptTemplateError
from tests.risu_ai.building.scene import character, contents, inputs

MEMBERS = [character(name=name, chaId=f"c{n}") for n, name in enumerate(("Bea", "Cid Vale", "Dot"))]


def group(talks: tuple[float, ...] = (1, 1, 1), **fields: Any) -> RisuCharacter:
    return RisuCharacter.from_json(
        {
            "type": "group",
            "name": "Party",
            "chaId": "g",
            "characters": ["c0", "c1", "c2"],
            "characterTalks": list(talks),
            "characterActive": [True, True, True],
            **fields,
        }
    )


def said(text: str, saying: str | None = None) -> RisuChat:
    return RisuChat(messages=(RisuMessage(role="user" if saying is None else "char", data=text, saying=saying),))


def choose(chat: RisuChat, *dice: float, **fields: Any) -> list[str]:
    rolled = cycle(dice or (0.5,))
    return speakers(group(**fields), MEMBERS, chat, lambda: next(rolled))


def test_members_speak_in_order_when_the_group_says_so():
    assert choose(said("x", "c1"), orderByOrder=True) == ["c0", "c1", "c2"]


def test_who_is_named_speaks_first_and_twice_if_named_twice():
    assert choose(said("vale BEA vale"), 0.99, talks=(0.5, 0.5, 0.5)) == ["c1", "c0", "c1"]


def test_a_lost_member_is_not_called_by_blanks_but_by_the_name_it_goes_by():
    lost = {"characters": ["c0", "lost", "c2"], "talks": (0.5, 0.5, 0.5)}
    assert choose(said("  Bea "), 0.99, **lost) == ["c0"]
    assert choose(said("unknown"), 0.99, **lost) == ["lost"]


def test_the_last_speaker_is_silent():
    assert "c2" not in choose(said("x", "c2"), 0.0)


def test_somebody_speaks_if_chance_lets_nobody():
    assert choose(said("x"), 0.99, talks=(0.1, 0.1, 0.1)) == ["c2"]


def test_inactive_members_never_speak():
    assert choose(said("Bea"), 0.0, characterActive=[False, True, True]) == ["c1", "c2"]


def test_a_group_in_which_nobody_can_speak_is_an_error():
    with pytest.raises(PromptTemplateError):
        choose(said("x"), talks=(0, 0, 0))
    assert choose(said("x"), talks=(0, 0, 0), orderByOrder=True) == []


def test_a_build_of_a_group_takes_the_first_who_speaks():
    builder = Builder(**inputs(character=group(orderByOrder=True), members=MEMBERS))
    assert builder.decide().activated == ("c0", "c1", "c2")
    assert "[Write the next reply only as Bea]" in contents(builder.build())[-1]
    assert "[Write the next reply only as Dot]" in contents(builder.build(speaker="c2"))[-1]


def test_who_is_named_in_the_input_box_is_asked_first():
    given = inputs(character=group((0.5, 0.5, 0.5)), members=MEMBERS, random=lambda: 0.99, message="Dot ?")
    assert Builder(**given).decide().activated == ("c2",)


def test_others_are_wrapped_and_the_speaker_is_not():
    chat = {
        "message": [
            {"role": "char", "data": "Mine.", "saying": "c0"},
            {"role": "char", "data": "Yours.", "saying": "c1"},
        ]
    }
    found = contents(Builder().build(**inputs(character=group(), members=MEMBERS, speaker="c0", history=chat)))
    assert "Mine." in found
    assert "<Cid Vale's Message>\nYours.\n</Cid Vale's Message>" in found


def test_a_member_that_is_gone_speaks_as_nobody():
    plan = Builder().build(**inputs(character=group(), members=MEMBERS[:1], speaker="c9"))
    assert "[Write the next reply only as Unknown Character]" in contents(plan)[-1]
    assert "'c9'" in plan.warnings[0]


def test_members_may_be_given_by_id():
    plan = Builder().build(**inputs(character=group(), members={"c0": MEMBERS[0]}, speaker="c0"))
    assert "as Bea" in contents(plan)[-1]


def test_a_talkativeness_that_no_double_holds_is_the_greatest():
    assert choose(said("x"), 0.99, talks=(10**400, 0.5, -(10**400))) == ["c0"]
