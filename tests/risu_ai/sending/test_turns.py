"""What one turn leaves for the next: times, settings, remembered script results, what is asked besides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tavernkit.risu_ai import Builder, Preset, RequestFailedError, RequestStoppedError, RisuPersona, Settings
from tavernkit.risu_ai.errors import PromptTemplateError
from tavernkit.stores import InMemoryVariablesStore
from tests.risu_ai.building.scene import STANDARD, Characters, character, inputs, preset
from tests.risu_ai.building.test_groups import MEMBERS, group
from tests.risu_ai.sending.test_sending import Model, send, texts

NOW = datetime(2024, 3, 7, 5, 4, 5, 678_000, tzinfo=UTC)


def trigger(kind: str, *effects: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"comment": "", "type": kind, "conditions": [], "effect": [*effects], **more}


def setvar(name: str, value: str, operator: str = "=") -> dict[str, Any]:
    return {"type": "setvar", "operator": operator, "var": name, "value": value}


def test_what_the_user_and_the_model_say_has_a_time() -> None:
    result = send(Model("Ok."), message="Hi", clock=lambda: NOW)
    assert [message.time for message in result.chat.messages[-2:]] == [1709787845678] * 2


def test_results_of_scripts_are_made_anew_when_a_trigger_wrote_a_variable() -> None:
    script = {
        "comment": "",
        "in": "@",
        "out": "{{getvar::n}}",
        "type": "editprocess",
        "flag": "g<cbs>",
        "ableFlag": True,
    }
    counting = character(customscript=[script], triggerscript=[trigger("start", setvar("n", "1", "+="))])
    store, builder, model = InMemoryVariablesStore({"local": {"n": "0"}}), Builder(), Model("Ok.")
    given = inputs(token_estimator=Characters(), character=counting, variables=store)
    first = builder.send(model, **given, message="n=@")
    first.variables.apply(store)
    later: dict[str, Any] = {**given, "history": first.chat}
    builder.send(model, **later, message="again")
    shown = [
        [m["content"] for m in request.messages if str(m["content"]).startswith("n=")] for request in model.requests
    ]
    assert shown == [["n=1"], ["n=2"]]


def test_a_group_stores_what_the_user_types_as_it_is() -> None:
    script = {"comment": "", "in": "teh", "out": "the", "type": "editinput"}
    owner = group(orderByOrder=True, customscript=[script])
    result = send(Model("Ok."), character=owner, members=MEMBERS, message="teh {{char}}")
    typed = next(message for message in result.chat.messages if message.role == "user" and "teh" in message.data)
    assert (
        typed.data == f"teh {MEMBERS[0].name}"
    )  # the macros run with the first speaker, the scripts of the group never


def test_a_member_that_is_sent_again_speaks_again_and_the_round_goes_on() -> None:
    again = trigger("output", {"type": "sendAIprompt"}, setvar("done", "1"), lowLevelAccess=True)
    again["conditions"] = [{"type": "var", "var": "done", "operator": "null", "value": ""}]
    first, second = MEMBERS[:2]
    eager = type(first).from_json({**first.raw, "triggerscript": [again], "lowLevelAccess": True})
    owner = group(orderByOrder=True)
    result = send(Model("1", "2", "3", "4"), character=owner, members=[eager, second, *MEMBERS[2:]], message="All!")
    said = [(message.saying, message.data) for message in result.chat.messages if message.role == "char"][-4:]
    assert said == [(first.id, "1"), (first.id, "2"), (second.id, "3"), (MEMBERS[2].id, "4")]


def chained(**more: Any) -> Settings:
    presets = [{"name": name, "mainPrompt": f"From {name}.", "aiModel": "gpt4o"} for name in ("a", "b")]
    return Settings.from_json(
        {"mainPrompt": "Live.", "aiModel": "gpt4o", "botPresets": presets, "botPresetsId": 0, **more}
    )


def dice(*numbers: float) -> Any:
    drawn: list[float] = []

    def draw() -> float:
        drawn.append(numbers[len(drawn) % len(numbers)])
        return drawn[-1]

    return draw, drawn


def test_a_preset_chain_is_drawn_once_and_stays_switched() -> None:
    draw, drawn = dice(0.9)
    result = Builder().send(
        Model("Ok."), **inputs(preset=None, settings=chained(presetChain="a, b"), random=draw, message="Hi")
    )
    assert len(drawn) == 1
    assert result.plans[0].blocks[0].content.startswith("From b.")
    assert result.settings.preset.main_prompt == "From b."
    assert result.settings.presets[0].main_prompt == "Live."  # what was in force is stored in its preset first
    assert result.settings.raw["botPresetsId"] == 1


def test_a_chain_that_picks_the_current_preset_keeps_what_is_in_force() -> None:
    draw, _ = dice(0.1)
    plan = Builder().build(**inputs(preset=None, settings=chained(presetChain="a,b"), random=draw))
    assert plan.blocks[0].content.startswith("Live.")


def test_a_preset_that_the_application_gives_is_never_chained() -> None:
    draw, drawn = dice(0.9)
    given = inputs(preset=preset(STANDARD), settings=chained(presetChain="a,b"), random=draw, message="Hi")
    assert Builder().send(Model("Ok."), **given).settings.preset.main_prompt == "Live."
    assert not drawn


def test_replies_can_be_kept_from_acting_as_macros() -> None:
    store = InMemoryVariablesStore()
    result = send(
        Model("{{setvar::x::1}}(ok)"), {"useStreaming": True}, message="Hi", variables=store,
        character=character(escapeOutput=True),
    )  # fmt: skip
    assert texts(result)[-1] == "\ue9b8\ue9b8setvar::x::1\ue9b9\ue9b9\ue9baok\ue9bb"
    assert store.get("x") is None
    model = Model("Ok.")
    send(model, {"useStreaming": True}, history=result.chat, message="Go on", character=character(escapeOutput=True))
    assert not model.requests[0].stream
    assert any(message["content"] == "{{setvar::x::1}}(ok)" for message in model.requests[0].messages)


def test_persona_texts_that_triggers_changed_are_handed_back() -> None:
    effect = {"type": "v2SetPersonaDesc", "value": "Now a sailor.", "valueType": "value", "indent": 0}
    header = trigger("manual", {"type": "v2Header", "code": "", "indent": 0})
    owner = character(triggerscript=[header, trigger("output", effect, lowLevelAccess=True)], lowLevelAccess=True)
    settings = {"personas": [{"id": "p", "name": "Ann", "personaPrompt": "A clerk."}], "selectedPersona": 0}
    result = send(Model("Ok."), settings, message="Hi", character=owner)
    assert result.settings.personas == (RisuPersona(id="p", name="Ann", prompt="Now a sailor."),)


IGP = "<|im_start|>user\nAdd to {{lastmessage}}.<|im_end|>"


@pytest.mark.parametrize(("quirks", "stored"), [("", "1 more"), ("reference", "1[object Object]")])
def test_the_inlay_prompt_adds_to_the_reply(quirks: str, stored: str) -> None:
    model = Model("1", " more")
    result = send(model, {"igpPrompt": IGP}, message="Hi", quirks=quirks)
    assert texts(result)[-1] == stored
    assert model.requests[1].messages == [{"role": "user", "content": "Add to 1."}]
    assert model.requests[1].model == Preset().sub_model


def test_an_inlay_prompt_that_is_no_chat_ml_adds_nothing_and_raises_in_strict_mode() -> None:
    result = send(Model("1"), {"igpPrompt": "Add."}, message="Hi")
    assert texts(result)[-1] == "1"
    assert any("ChatML" in warning for warning in result.warnings)
    with pytest.raises(PromptTemplateError):
        send(Model("1"), {"igpPrompt": "Add."}, message="Hi", strict=True)


def test_the_end_of_a_stream_passes_the_listeners_once_more() -> None:
    code = "function onStart() end listenEdit('editOutput', function(id, text) n = (n or 0) + 1 return text .. n end)"
    owner = character(triggerscript=[trigger("start", {"type": "triggerlua", "code": code})])
    result = send(Model(["a", "b"]), {"useStreaming": True}, message="Hi", character=owner)
    assert texts(result)[-1] == "ab3"


@pytest.mark.parametrize(("quirks", "stored"), [("", "One. Two."), ("reference", "*says nothing* Two.")])
def test_a_continued_reply_is_not_lost_to_saying_nothing(quirks: str, stored: str) -> None:
    said = [{"role": "user", "data": "Hi"}, {"role": "char", "data": "One."}]
    result = send(
        Model(" Two."), history={"message": said}, generation_type="continue", say_nothing=True, quirks=quirks
    )
    assert texts(result)[-1] == stored


@pytest.mark.parametrize(("wanted", "stored"), [(True, "Filled."), (False, "")])
def test_a_blank_reply_is_asked_of_the_next_model_if_the_user_wants_that(wanted: bool, stored: str) -> None:
    settings = {"fallbackModels": {"model": ["gpt4o", "gpt4om"]}, "fallbackWhenBlankResponse": wanted}
    model = Model(" ", "Filled.")
    assert texts(send(model, settings, message="Hi"))[-1] == stored
    assert [request.model for request in model.requests] == ["gpt4o", "gpt4om"][: 1 + wanted]


def test_a_request_that_the_user_stops_leaves_the_chat_as_it_is() -> None:
    start = trigger("output", setvar("ran", "1"))
    store = InMemoryVariablesStore()
    owner = character(triggerscript=[start])
    result = send(Model(RequestStoppedError("stop")), message="Hi", character=owner, variables=store)
    assert (result.ok, result.error, texts(result)[-1]) == (False, None, "Hi")
    assert store.get("ran") is None


def pieces() -> Iterator[str]:
    yield "One "
    yield "two "
    raise RequestStoppedError("stop")


async def pieces_async() -> AsyncIterator[str]:
    for piece in pieces():
        yield piece


def test_a_stream_that_the_user_stops_keeps_what_there_is() -> None:
    given = inputs(token_estimator=Characters(), settings=Settings.from_json({"useStreaming": True}), message="Hi")
    result = Builder().send(lambda _: pieces(), **given)
    assert (result.ok, texts(result)[-1]) == (False, "One two")
    later = asyncio.run(Builder().send_async(lambda _: pieces_async(), **given))
    assert texts(later) == texts(result)


async def as_they_come(found: Iterator[str]) -> AsyncIterator[str]:
    for piece in found:
        yield piece


def failing(*before: str) -> Iterator[str]:
    yield from before
    raise RequestFailedError("gone")


def test_a_stream_that_fails_before_its_first_piece_is_a_failed_request() -> None:
    given = inputs(settings=Settings.from_json({"requestRetrys": 1}), message="Hi")
    asked = [failing(), iter(["Here."]), failing(), iter(["Here."])]
    for result in (
        Builder().send(lambda _: asked.pop(0), **given),
        asyncio.run(Builder().send_async(lambda _: as_they_come(asked.pop(0)), **given)),
    ):
        assert (result.ok, texts(result)[-1]) == (True, "Here.")
    result = Builder().send(lambda _: failing(), **given)
    assert result.error is not None
    assert (result.ok, result.error.code, texts(result)[-1]) == (False, "request_failed", "Hi")


def test_a_stream_that_breaks_off_keeps_what_there_is() -> None:
    given = inputs(message="Hi")
    for result in (
        Builder().send(lambda _: failing("One ", "two"), **given),
        asyncio.run(Builder().send_async(lambda _: as_they_come(failing("One ", "two")), **given)),
    ):
        assert (result.ok, texts(result)[-1]) == (True, "One two")
    assert texts(Builder().send(lambda _: [], **given))[-1] == ""
