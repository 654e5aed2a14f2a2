from __future__ import annotations

import json
from pathlib import Path

import pytest

from tavernkit.cards import Character
from tavernkit.errors import ConfigError, StrictModeError, WarningLog
from tavernkit.prompt._inputs import GroupDecision
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._group import (
    Group,
    GroupChat,
    GroupMember,
    group_depth_prompts,
    merge_cards,
    reconcile,
)
from tavernkit.silly_tavern._group_activation import ActivationInput, MissingGroupMemberError, activate

CARDS = {
    "alice.png": Character(name="Alice", description="Alice of {{char}}", mes_example="Alice: hi"),
    "bob.png": Character(
        name="Bob Stone", description="Bob", extensions={"depth_prompt": {"prompt": " note ", "role": "user"}}
    ),
}
ALICE, BOB = (GroupMember(avatar, card) for avatar, card in CARDS.items())
GROUP = Group(members=("alice.png", "bob.png"))


def expand(text: str, name: str | None) -> str:
    return text.replace("{{char}}", name or "speaker")


def test_the_same_seed_gives_the_same_decision_with_its_reasons() -> None:
    given = ActivationInput(group=GROUP, characters=[ALICE, BOB], user_input="Bob? And stone", seed=7)
    first, second = activate(given), activate(given)
    assert first == second
    assert first.activated[0] == "bob.png"
    assert first.reasons[0] == "mention: Bob Stone"
    assert GroupDecision.from_dict(json.loads(json.dumps(first.to_dict()))) == first
    assert first.fingerprint == second.fingerprint


def test_a_decision_of_an_application_names_activated_members() -> None:
    decision = GroupDecision.from_dict({"activated_member_ids": [12, 34], "strategy": "natural", "seed": 123})
    assert decision == GroupDecision(activated=("12", "34"), strategy="natural", seed=123)


@pytest.mark.parametrize(("listed", "activated"), [("Ann.png", ("Ann.png",)), ("", ()), (5, ()), (None, ()), ({}, ())])
def test_decisions_with_other_values_than_lists_are_read(listed: object, activated: tuple[str, ...]) -> None:
    decision = GroupDecision.from_dict({"activated": listed, "reasons": listed})
    assert (decision.activated, decision.reasons) == (activated, activated)
    assert GroupDecision.from_dict(decision.to_dict()) == decision


def test_an_application_that_decides_otherwise_wins_with_a_warning() -> None:
    ours = GroupDecision(activated=("alice.png",), strategy="list")
    theirs = GroupDecision(activated=("bob.png",))
    log = WarningLog()
    assert reconcile(theirs, ours, log) is theirs
    assert "group decision mismatch" in log.messages[0]
    with pytest.raises(StrictModeError):
        reconcile(theirs, ours, WarningLog(strict=True))
    quiet = WarningLog()
    assert reconcile(ours, ours.from_dict(ours.to_dict()), quiet) is ours
    assert reconcile(None, ours, quiet) is ours
    assert not quiet.messages


def test_nobody_speaks_when_strategy_is_manual_and_the_user_typed() -> None:
    given = ActivationInput(group=GROUP.replace(activation_strategy="manual"), characters=[ALICE, BOB], user_input=" ")
    decision = activate(given)
    assert decision.send_as_user
    assert decision.is_user_input
    assert not decision.activated


def test_continuing_without_a_speaker_is_an_error_that_says_so() -> None:
    chat = [ChatMessage(name="Gone", mes="x", original_avatar="gone.png")]
    with pytest.raises(MissingGroupMemberError, match="continue"):
        activate(ActivationInput(group=GROUP, characters=[ALICE], chat=chat, generation_type="continue"))


def test_swap_mode_joins_nothing() -> None:
    assert merge_cards(GroupChat.of(GROUP, CARDS, "alice.png"), expand=expand) is None
    assert group_depth_prompts(GroupChat.of(GROUP, CARDS, "alice.png"), expand=expand) == []


def test_joined_cards_speak_of_each_member_by_name() -> None:
    group = GROUP.replace(generation_mode="append", join_prefix="[<fieldname>] ")
    chat = GroupChat.of(group, CARDS, "alice.png")
    joined = merge_cards(chat, expand=expand)
    assert joined is not None
    assert joined.description == "[Description] Alice of Alice\n[Description] Bob"
    assert joined.examples == "[Example Messages] <START>\nAlice: hi"
    (prompt,) = group_depth_prompts(chat, expand=expand)
    assert (prompt.text, prompt.depth, prompt.role) == ("note", 4, 1)


def test_a_muted_member_counts_only_when_it_speaks_or_the_mode_says_so() -> None:
    group = GROUP.replace(generation_mode="append", disabled_members=("bob.png",))

    def description(group: Group, speaker: str) -> str:
        joined = merge_cards(GroupChat.of(group, CARDS, speaker), expand=expand)
        assert joined is not None
        return joined.description

    assert description(group, "alice.png") == "Alice of Alice"
    assert description(group, "bob.png") == "Alice of Alice\nBob"
    assert description(group.replace(generation_mode="append_disabled"), "alice.png") == "Alice of Alice\nBob"


def test_a_group_file_comes_back_as_it_was(tmp_path: Path) -> None:
    data = {
        "id": "1",
        "name": "G",
        "members": ["a.png"],
        "activation_strategy": "2",
        "generation_mode": 2,
        "fav": True,
        "chats": ["c1"],
        "auto_mode_delay": 5,
        "unknown": {"deep": [1, None]},
    }
    path = tmp_path / "group.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    group = Group.load(path)
    assert (group.activation_strategy, group.generation_mode) == ("manual", "append_disabled")
    assert group.to_json() == data
    changed = group.replace(activation_strategy="pooled", disabled_members=("a.png",)).to_json()
    assert changed == {**data, "activation_strategy": 3, "disabled_members": ["a.png"]}
    assert Group(members=("x",)).to_json()["members"] == ["x"]


def test_what_is_no_group_is_refused() -> None:
    with pytest.raises(ConfigError, match="group"):
        Group.from_json([])  # type: ignore[arg-type]


def test_a_persona_named_like_the_last_speaker_lets_that_one_generate_twice() -> None:
    chat = [
        ChatMessage(name="Bob Stone", mes="b", original_avatar="bob.png"),
        ChatMessage(name="Bob Stone", mes="c", is_user=True),
    ]
    given = ActivationInput(group=GROUP, characters=[ALICE, BOB], chat=chat, generation_type="continue", seed=1)
    assert activate(given).activated == ("bob.png", "bob.png")


def test_depth_prompts_take_depth_and_role_as_cards_write_them() -> None:
    card = Character(name="A", extensions={"depth_prompt": {"prompt": "n", "depth": "2", "role": 2}})
    chat = GroupChat.of(Group(members=("a.png",), generation_mode="append"), {"a.png": card}, "a.png")
    (prompt,) = group_depth_prompts(chat, expand=expand)
    assert (prompt.depth, prompt.role) == (2, 2)


def test_an_override_that_expands_to_blanks_replaces_what_would_be_collected() -> None:
    chat = GroupChat.of(GROUP.replace(generation_mode="append"), CARDS, "alice.png")
    joined = merge_cards(chat, expand=lambda text, _: " ", scenario_override="{{space}}")
    assert joined is not None
    assert joined.scenario == " "
