"""Where no text is expanded, a reply is cleaned up by the same options without a workspace."""

from __future__ import annotations

import dataclasses

import pytest

from tavernkit.cards import Character, User
from tavernkit.prompt._inputs import GenerationType
from tavernkit.silly_tavern import Builder, ChatMessage, PowerUser, SillyTavernInputs
from tavernkit.silly_tavern._chat.core_chat import Turn
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._reply_clean_up import plain_clean_up, reply_clean_up, reply_stop_strings

CHAT = (ChatMessage(name="Bel", mes="Hello"), ChatMessage(name="Ann", mes="Hi", is_user=True))
INPUTS: SillyTavernInputs = {
    "character": Character(name="Bel"),
    "user": User(name="Ann"),
    "stop_strings": ["STOP", "\n###"],
}


@pytest.mark.parametrize("kind", ["normal", "continue", "impersonate", "swipe", "regenerate"])
def test_the_options_are_those_of_a_workspace(kind: GenerationType) -> None:
    builder = Builder(**INPUTS)
    state = builder.make_state(builder.make_context(generation_type=kind, history=CHAT))
    state.turn = Turn(CHAT, "")
    wanted = reply_clean_up(state, reply_stop_strings(state))
    found = plain_clean_up(builder.own_context, kind, CHAT)
    assert found is not None
    plain = {"expand": str, "scripts": str}
    assert found == dataclasses.replace(wanted, stop_strings=list(wanted.stop_strings), **plain)


@pytest.mark.parametrize(
    "power_user",
    [
        PowerUser(user_prompt_bias="{{char}} says"),
        PowerUser(custom_stopping_strings='["{{user}}!"]'),
        PowerUser(experimental_macro_engine=False),
    ],
)
def test_texts_that_may_be_expanded_need_a_workspace(power_user: PowerUser) -> None:
    builder = Builder(**INPUTS).replace(settings=Settings(power_user=power_user))
    assert plain_clean_up(builder.own_context, "normal", CHAT) is None
