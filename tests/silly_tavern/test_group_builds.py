from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import ConfigError, WarningLog
from tavernkit.prompt import TraceCollector
from tavernkit.silly_tavern import Builder, ChatMessage, Group, GroupDecision
from tavernkit.silly_tavern._group import settings_fingerprint
from tests.silly_tavern.scene import card, contents, inputs

MEMBERS = {f"{name}.png": card(name) for name in ("Lyra", "Bram", "Odile")}


def group(**fields: Any) -> Group:
    return Group(**{"members": tuple(MEMBERS), "activation_strategy": "list", **fields})


def builder(**changes: Any) -> Builder:
    given = inputs(
        group=group(), members=MEMBERS, history=[ChatMessage(name="Bram", mes="Oi.", original_avatar="Bram.png")]
    )
    del given["character"]
    return Builder(**{**given, **changes})


def test_each_speaker_of_a_round_sees_the_replies_before():
    built = builder()
    speakers = built.decide(message="Hello all").activated
    assert speakers == tuple(MEMBERS)
    first = built.build(message="Hello all", speaker=speakers[0])
    chat = [*first.chat, ChatMessage(name="Lyra", mes="Evening.", original_avatar="Lyra.png")]
    second = built.build(history=chat, speaker=speakers[1])
    assert contents(second)[-4:] == ["Bram: Oi.", "Hello all", "Lyra: Evening.", "[Write the next reply only as Bram.]"]


def test_members_may_be_a_list_of_cards():
    listed = builder(members=list(MEMBERS.values()))
    assert listed.decide(message="Hello") == builder().decide(message="Hello")
    assert contents(listed.build(message="Hello")) == contents(builder().build(message="Hello"))


def test_without_a_speaker_the_first_one_decided_speaks():
    assert "Lyra keeps the lamp." in contents(builder().build(message="Hello"))


def test_a_speaker_may_be_named_or_given_by_file():
    assert "Odile keeps the lamp." in contents(builder().build(speaker="Odile"))
    assert "Odile keeps the lamp." in contents(builder().build(speaker="Odile.png"))


def test_an_unknown_speaker_is_refused_with_the_members():
    with pytest.raises(ConfigError, match=r"Lyra\.png, Bram\.png, Odile\.png"):
        builder().build(speaker="Nobody")


def test_when_nobody_speaks_that_is_said():
    with pytest.raises(ConfigError, match="no one speaks"):
        builder(group=group(activation_strategy="manual")).build(message="Hello")


def test_cards_of_others_than_the_members_are_named():
    with pytest.raises(ConfigError, match=r"members are who\.png, and members= has the cards Lyra\.png"):
        builder(group=group(members=["who.png"])).build(message="Hello")


def test_cards_are_joined_when_the_group_says_so():
    texts = contents(builder(group=group(generation_mode="append")).build(speaker="Lyra"))
    assert "Lyra keeps the lamp.\nBram keeps the lamp.\nOdile keeps the lamp." in texts


def test_the_applications_decision_is_used_and_a_mismatch_told():
    decision = GroupDecision(activated=("Odile.png",), strategy="list", seed=1)
    plan = builder(decision=decision).build(message="Hello")
    assert "Odile keeps the lamp." in contents(plan)
    assert "group decision mismatch" in plan.warnings[0]


def test_a_decision_without_a_seed_is_taken_as_it_is():
    plan = builder(decision=GroupDecision(activated=("Odile.png",))).build(message="Hello")
    assert plan.warnings == ()


def test_a_trace_tells_which_settings_and_which_decision_were_used():
    def stats(**changes: Any) -> dict[str, Any]:
        trace = builder(**changes).build(message="Hello", instrumenter=TraceCollector()).trace
        assert trace is not None
        return dict(next(step for step in trace.steps if step.name == "prepare").stats)

    decided = builder().decide(message="Hello")
    assert stats()["decision_fingerprint"] == decided.fingerprint == stats(decision=decided)["decision_fingerprint"]
    assert stats()["group_fingerprint"] == settings_fingerprint(group(name="Keepers"))
    assert stats()["group_fingerprint"] != settings_fingerprint(group(allow_self_responses=True))
    assert "decision_fingerprint" not in stats(speaker="Odile")


def test_impersonating_has_no_group_nudge():
    texts = contents(builder().build(speaker="Lyra", generation_type="impersonate"))
    assert not any(text.startswith("[Write the next reply only as") for text in texts)


def test_deciding_needs_a_group():
    log = WarningLog()
    with pytest.raises(ConfigError, match="pass group="):
        Builder(**inputs(warn=log)).decide()
