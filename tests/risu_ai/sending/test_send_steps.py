"""Steps of a send beside the reply: off unless the save or the application switches them on."""

from __future__ import annotations

from typing import Any

import pytest

import tavernkit as tk
from tavernkit.models.errors import ConnectionFailedError
from tavernkit.risu_ai import RequestFailedError, RisuPlan, SendSteps, Settings
from tavernkit.testing import ScriptedModel
from tests.risu_ai.building.scene import character
from tests.risu_ai.building.test_groups import MEMBERS, group
from tests.risu_ai.conversation.test_chat import made
from tests.risu_ai.conversation.test_chat import texts as chat_texts
from tests.risu_ai.sending.test_sending import Model, send, texts

PICTURES: dict[str, Any] = {"emotionImages": [["Joy", "a"], ["grief", "b"]]}
TRANSLATED = {"autoTranslate": True, "translator": "fr"}


def asked(model: Model) -> list[str]:
    return [str(request.messages[-1]["content"]) for request in model.requests]


def test_nothing_is_asked_besides_by_default() -> None:
    model = Model("Hi.")
    result = send(model, message="Hello.")
    assert len(model.requests) == 1
    assert (result.suggestions, result.translations) == ((), {})


def test_a_save_and_the_application_switch_steps_on() -> None:
    model = Model("Hello.", "Hi.", "Salut.", "Bye.\nStay.")
    steps = SendSteps(suggest=True, translate_input="en")
    result = send(model, message="Bonjour.", settings=TRANSLATED, send_steps=steps)
    assert texts(result)[-2:] == ["Hello.", "Hi."]
    assert list(result.translations.values()) == ["Salut."]
    assert result.suggestions == ("Bye.", "Stay.")
    assert asked(model)[0].endswith("\nBonjour.")
    assert [request.plan.purpose for request in model.requests] == ["translate", "model", "translate", "otherAx"]


def test_the_application_switches_them_off_again() -> None:
    model = Model("Hi.")
    off = SendSteps(translate_reply="", emotion=False, inlay_prompt="")
    reported = {**TRANSLATED, "igpPrompt": "<|im_start|>system\nAdd.<|im_end|>"}
    shown = character(**PICTURES, viewScreen="emotion")
    result = send(model, message="Bonjour.", settings=reported, character=shown, send_steps=off)
    assert texts(result)[-2:] == ["Bonjour.", "Hi."]
    assert len(model.requests) == 1


def test_the_application_translates_with_a_function_of_its_own() -> None:
    def translate(text: str, language: str) -> str:
        return f"{language}({text})"

    model = Model("<risu-style>p {}</risu-style>Hi.")
    script = {"customscript": [{"type": "edittrans", "in": "Hi", "out": "Ho"}]}
    steps = SendSteps(translate_input="en", translate_reply="de", translate=translate)
    result = send(model, message="Salut.", character=character(**script), send_steps=steps)
    assert texts(result)[-2:] == ["en(Salut.)", "<risu-style>p {}</risu-style>Hi."]
    (shown,) = result.translations.values()
    assert shown == "de(p {}Ho.)"
    assert len(model.requests) == 1


def test_a_translation_that_fails_leaves_the_text_as_it_is() -> None:
    def translate(_text: str, _language: str) -> str:
        raise RequestFailedError("no such language")

    reported: list[str] = []
    steps = SendSteps(translate_input="xx", translate_reply="xx", translate=translate)
    result = send(Model("Hi."), message="Hello.", send_steps=steps, warn=reported.append)
    assert texts(result)[-2:] == ["Hello.", "Hi."]
    assert result.translations == {}
    assert sum("no such language" in warning for warning in reported) == 2


def test_pictures_and_added_texts_can_be_asked_for_by_the_application() -> None:
    model = Model("Hooray!", " [sun]", "It is joy.")
    steps = SendSteps(emotion=True, inlay_prompt="<|im_start|>system\nWhich picture?<|im_end|>")
    result = send(model, message="We won.", character=character(**PICTURES), send_steps=steps)
    assert texts(result)[-1] == "Hooray! [sun]"
    assert result.emotions == ("Joy",)


def test_every_reply_of_a_group_is_translated_and_suggestions_are_asked_for_once() -> None:
    model = Model("One.", "Two.", "Three.", "Un.", "Deux.", "Trois.", "Bye.")
    steps = SendSteps(translate_reply="fr", suggest=True)
    owner = group(orderByOrder=True)
    result = send(model, character=owner, members=MEMBERS, message="Hi", send_steps=steps)
    assert list(result.translations.values()) == ["Un.", "Deux.", "Trois."]
    assert result.suggestions == ("Bye.",)


async def test_a_chat_has_the_steps_of_its_turns() -> None:
    steps = SendSteps(suggest=True, translate_input="en", translate_reply="fr")
    chat, host = made("Hello.", "Hi.", "Salut.", "Bye.", send_steps=steps)
    turn = await chat.send("Bonjour.")
    assert turn.text == "Hi."
    assert chat_texts(chat) == ["Hello.", "Hi."]
    assert chat.suggestions == ("Bye.",)
    assert list(chat.translations.values()) == ["Salut."]
    purposes = [plan.purpose for plan in host.plans if isinstance(plan, RisuPlan)]
    assert purposes == ["translate", "model", "translate", "otherAx"]


async def test_a_step_that_fails_does_not_fail_the_turn() -> None:
    steps = SendSteps(suggest=True, translate_input="en")
    gone = ConnectionFailedError("gone")
    chat, _ = made(gone, "Hi.", gone, send_steps=steps)
    assert (await chat.send("Bonjour.")).text == "Hi."
    assert chat_texts(chat) == ["Bonjour.", "Hi."]
    assert chat.suggestions == ()
    assert any("helper request failed" in warning for warning in chat.warnings)


async def test_a_continued_and_a_rerolled_reply_is_translated_again() -> None:
    chat, _ = made("Hi.", "Salut.", "Ho.", "Oh.", send_steps=SendSteps(translate_reply="fr"))
    await chat.send("Hello.")
    await chat.regenerate()
    assert list(chat.translations.values()) == ["Oh."]


async def test_a_conversation_takes_steps_as_inputs() -> None:
    model = ScriptedModel("Hi.", "Bye.\nStay.")
    chat = tk.Conversation.open(
        card=tk.Character(name="Mira"), platform="risu_ai", model=model, inputs={"send_steps": SendSteps(suggest=True)}
    )
    turn = await chat.send("Hello.")
    assert turn.text == "Hi."
    assert chat.chat.suggestions == ("Bye.", "Stay.")  # pyright: ignore[reportAttributeAccessIssue]  # a RisuAI chat


@pytest.mark.parametrize("value", [1, "x", [], None])
def test_odd_settings_switch_nothing_on_that_cannot_be_done(value: object) -> None:
    settings = Settings.from_json(
        {"autoTranslate": True, "translator": value if value != "x" else 5, "igpPrompt": value}
    )
    assert SendSteps().reply_language(settings) == ""
    assert SendSteps().added_prompt(settings) == (value if isinstance(value, str) else "")
