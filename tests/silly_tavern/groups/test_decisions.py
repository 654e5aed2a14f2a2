"""Who speaks where two rules of the decision meet."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.cards import Character
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._group import Group, GroupMember
from tavernkit.silly_tavern._group_activation import ActivationInput, activate


def character(name: str, **extensions: Any) -> GroupMember:
    return GroupMember(f"{name}.png", Character(name=name, extensions=extensions))


def said(name: str, text: str = "x", **line: Any) -> ChatMessage:
    return ChatMessage(name=name, mes=text, original_avatar=f"{name}.png", **line)


def user(name: str = "User", text: str = "x") -> ChatMessage:
    return ChatMessage(name=name, mes=text, is_user=True)


NARRATOR = ChatMessage(name="Nar", mes="x", extra={"type": "narrator"})
NOTICE = ChatMessage(name="Sys", mes="x", is_system=True)
EVERYONE = [character("Ann"), character("Bob"), character("Cy")]


def decide(draws: list[float], *, members: str = "Ann Bob", muted: str = "", **given: Any) -> str:
    """The names of those who speak. All draws must be used, and no more."""
    left = iter(draws)
    group = Group.from_json(
        {
            "members": [f"{name}.png" for name in members.split()],
            "disabled_members": [f"{name}.png" for name in muted.split()],
            "activation_strategy": given.pop("strategy", 0),
            "allow_self_responses": given.pop("allow_self_responses", False),
        }
    )
    characters = given.pop("characters", EVERYONE)
    decision = activate(ActivationInput(group=group, characters=characters, random=lambda: next(left), **given))
    assert next(left, None) is None
    return " ".join(avatar.removesuffix(".png") for avatar in decision.activated)


@pytest.mark.parametrize(
    ("chat", "draws", "speakers"),
    [
        ([said("Bob"), NOTICE], [], "Ann"),
        ([said("Bob"), user()], [], "Bob"),
        ([said("Bob", is_system=True), NARRATOR], [], "Bob"),
        ([user()], [0.0, 0.0], "Bob"),
        ([said("Ann"), user("Bob")], [], "Ann"),
        ([], [], "Ann"),
    ],
)
def test_quiet_is_spoken_by_one_of_those_who_would_be_swiped(
    chat: list[ChatMessage], draws: list[float], speakers: str
) -> None:
    assert decide(draws, chat=chat, generation_type="quiet") == speakers


@pytest.mark.parametrize(
    ("chat", "draws", "speakers"),
    [
        ([said("Ann"), user("Bob")], [], "Ann Bob"),
        ([said("Ann"), NARRATOR], [], "Ann"),
        ([said("Cy")], [], "Cy"),
        ([said("Ann", is_system=True)], [0.9, 0.1], "Ann Ann"),
        ([user("Cy")], [0.0, 0.0], "Bob"),
    ],
)
def test_a_swipe_looks_for_the_last_speaker_in_two_ways(
    chat: list[ChatMessage], draws: list[float], speakers: str
) -> None:
    assert decide(draws, chat=chat, generation_type="swipe", muted="Ann Bob") == speakers


@pytest.mark.parametrize(
    ("draws", "speakers", "given"),
    [
        ([0.5], "Cy", {"chat": [user(), said("Ann"), NARRATOR, said("Bob")], "members": "Ann Bob Cy"}),
        ([0.5], "Ann", {"chat": [said("Ann"), said("Bob")]}),
        ([0.6], "Bob", {"chat": [said("Ann"), said("Bob"), NOTICE]}),
        ([0.6], "Bob", {"chat": [said("Ann"), said("Bob")], "user_input": " "}),
        ([0.6], "Ann", {"chat": [said("Ann")], "members": "Ann"}),
        ([0.6], "", {"muted": "Ann Bob"}),
        ([0.9], "", {"members": "Ann Gone"}),
    ],
)
def test_a_pool_draws_once(draws: list[float], speakers: str, given: dict[str, Any]) -> None:
    assert decide(draws, strategy="3", **given) == speakers


@pytest.mark.parametrize(
    ("draws", "speakers", "given"),
    [
        # Bob is named by the last speaker, who is banned herself and draws nothing.
        ([0.9, 0.9, 0.6], "Bob", {"chat": [said("Ann", "bob!")]}),
        # The name of a notice is banned, its text names nobody.
        ([0.9, 0.9, 0.9, 0.3], "Bob", {"chat": [said("Ann", "bob", is_system=True)]}),
        # The banned one speaks if nobody else is there.
        ([0.9, 0.2], "Ann", {"chat": [said("Ann", "hey")], "members": "Ann"}),
        ([0.9, 0.9], "Ann", {"chat": [said("Ann", "ann")], "members": "Ann", "allow_self_responses": True}),
        ([0.9, 0.9, 0.9, 0.9], "Ann", {"members": "Gone Ann", "user_input": "q"}),
        # One half where it is not a number, and as much is enough.
        ([0.9, 0.9, 0.50001, 0.5], "Yak", {"members": "Xen Yak", "user_input": "q"}),
        # Nothing is zero, which a draw of zero still reaches.
        ([0.9, 0.0], "Nix", {"members": "Nix", "user_input": "q"}),
        ([0.9, 0.1, 0.3], "Eve", {"members": "Eve", "user_input": "q"}),
    ],
)
def test_natural_order(draws: list[float], speakers: str, given: dict[str, Any]) -> None:
    others = [character("Xen", talkativeness="chatty"), character("Yak")]
    others += [character("Nix", talkativeness=None), character("Eve", talkativeness="")]
    assert decide(draws, characters=[*EVERYONE, *others], **given) == speakers


@pytest.mark.parametrize(
    ("draws", "speakers", "given"),
    [
        ([0.9, 0.1], "Ann", {"strategy": 2, "user_input": "x", "auto_mode": True}),
        ([], "", {"strategy": 2, "user_input": " "}),
        ([], "", {"strategy": 9}),
        ([], "Bob Ann", {"strategy": 1, "members": "Bob Gone Ann Bob"}),
        ([0.99], "Bob", {"generation_type": "impersonate", "muted": "Bob"}),
        ([0.1], "", {"generation_type": "impersonate", "members": "Gone"}),
        ([], "Cy", {"forced": "Cy.png", "generation_type": "swipe"}),
        ([], "", {"forced": "Cy.png", "members": ""}),
    ],
)
def test_the_other_ways_to_choose(draws: list[float], speakers: str, given: dict[str, Any]) -> None:
    assert decide(draws, **given) == speakers
