from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import tavernkit as tk
from tavernkit.errors import MaxTokensExceededError
from tavernkit.risu_ai import Builder, ModelRequest, RequestFailedError, SendResult, Settings
from tavernkit.risu_ai._limits import MAX_ROUNDS
from tavernkit.risu_ai._prompt_template.cards import PlainCard
from tavernkit.risu_ai._sending.replies import cut_incomplete, ends_closed, has_banned_script
from tavernkit.risu_ai.errors import PromptTemplateError, RequestFormatError
from tavernkit.stores import InMemoryVariablesStore
from tavernkit.testing import Disconnect, ScriptedModel, failure, streamed
from tests.risu_ai.building.scene import Characters, character, inputs, preset
from tests.risu_ai.building.test_groups import MEMBERS, group


class Model:
    """Answers in order, and keeps what it was asked."""

    def __init__(self, *replies: str | list[str] | Exception) -> None:
        self.requests: list[ModelRequest] = []
        self._replies = replies

    def __call__(self, request: ModelRequest) -> str | list[str]:
        reply = self._replies[min(len(self.requests), len(self._replies) - 1)]
        self.requests.append(request)
        if isinstance(reply, Exception):
            raise reply
        return reply


def send(model: Model | tk.Model, settings: dict[str, Any] | None = None, **changes: Any) -> SendResult:
    given = inputs(token_estimator=Characters(), settings=Settings.from_json(settings or {}), **changes)
    return Builder().send(model, **given)


def texts(result: SendResult) -> list[str]:
    return [message.data for message in result.chat.messages]


def test_a_reply_is_trimmed_and_stored_with_who_said_it():
    result = send(Model("  Swords.\n"), message="What do you sell?")
    assert result.ok
    assert texts(result)[-2:] == ["What do you sell?", "Swords."]
    assert (result.chat.messages[-1].role, result.chat.messages[-1].saying) == ("char", "c1")
    assert len(result.plans) == 1


def test_what_is_typed_goes_through_the_input_scripts():
    script = {"comment": "", "in": "teh", "out": "the", "type": "editinput"}
    result = send(Model("Ok."), message="teh sea", character=character(customscript=[script]))
    assert texts(result)[-2] == "the sea"


@pytest.mark.parametrize(("result", "stored"), [("nil", "Ok."), ("''", ""), ("false", "false"), ("5", "5")])
def test_whatever_a_listener_gives_back_replaces_the_reply(result: str, stored: str):
    code = f"listenEdit('editOutput', function(id, text) return {result} end)"
    script = {"comment": "", "type": "start", "conditions": [], "effect": [{"type": "triggerlua", "code": code}]}
    assert texts(send(Model("Ok."), character=character(triggerscript=[script])))[-1] == stored


def test_variables_of_a_reply_are_written_when_it_is_stored():
    variables = InMemoryVariablesStore()
    result = send(Model("{{setvar::mood::calm}}Well."), variables=variables)
    assert not variables.has("mood")
    result.variables.apply(variables)
    assert variables.get("mood") == "calm"
    assert texts(result)[-1] == "Well."


def test_dice_go_on_from_prompt_to_prompt_of_a_send():
    model = Model("One", " two.")
    send(model, {"autoContinueChat": True}, preset=preset(main_prompt="{{roll::1000}}"), random=pytest.fail, seed=3)
    rolled = [request.messages[0]["content"] for request in model.requests]
    assert rolled[0] != rolled[1]


def test_a_failure_is_tried_again_and_then_reported():
    model = Model(RequestFailedError("busy"))
    result = send(model, {"requestRetrys": 1})
    assert not result.ok
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("request_failed", "Error: error in request:busy")
    assert len(model.requests) == 2
    assert len(texts(result)) == 3, "nothing is stored"


def test_fallback_models_are_asked_in_order():
    model = Model(RequestFailedError("no"), "Fine.")
    send(model, {"requestRetrys": 0, "fallbackModels": {"model": ["gpt4o", "gpt-5"]}})
    assert [request.model for request in model.requests] == ["gpt4o", "gpt-5"]


def test_a_prompt_that_does_not_fit_fails_before_the_request():
    model = Model("x")
    result = send(model, preset=preset(max_context=10))
    assert not result.ok
    assert result.error is not None
    assert result.error.code == "context_too_small"
    assert isinstance(result.error.cause, MaxTokensExceededError)
    assert result.error.cause.estimated_tokens > 10
    assert model.requests == []


def test_nothing_but_system_messages_raises_in_strict_mode_where_the_model_takes_only_a_first_one():
    only_system = preset(ai_model="mistral-large-latest", prompt_template=[PlainCard(text="S", role="system")])
    assert send(Model("Hm."), preset=only_system).ok
    with pytest.raises(RequestFormatError):
        send(Model("Hm."), preset=only_system, strict=True)


def test_errors_of_the_model_function_itself_are_the_callers():
    with pytest.raises(ZeroDivisionError):
        send(Model(ZeroDivisionError()))


def test_continuing_glues_the_reply_to_the_last_message():
    chat = {"message": [{"role": "char", "data": "Once"}], "fmIndex": -1}
    result = send(Model(" upon a time."), history=chat, generation_type="continue")
    assert texts(result) == ["Once upon a time."]


def test_there_may_be_nothing_to_continue():
    chat: dict[str, Any] = {"message": [], "fmIndex": -1}
    result = send(Model("Hm."), history=chat, generation_type="continue")
    assert texts(result) == ["Hm."]
    assert "no message to continue" in result.warnings[-1]
    with pytest.raises(PromptTemplateError):
        send(Model("Hm."), history=chat, generation_type="continue", strict=True)


def test_there_may_be_nothing_to_continue_in_a_stream():
    chat: dict[str, Any] = {"message": [], "fmIndex": -1}
    result = send(Model(["H", "m."]), {"useStreaming": True}, history=chat, generation_type="continue")
    assert texts(result) == ["Hm."]
    assert "no message to continue" in result.warnings[-1]
    with pytest.raises(PromptTemplateError):
        send(Model(["Hm."]), {"useStreaming": True}, history=chat, generation_type="continue", strict=True)


def test_an_unfinished_reply_is_continued():
    model = Model("One", " two.")
    result = send(model, {"autoContinueChat": True})
    assert texts(result)[-1] == "One two."
    assert len(model.requests) == 2


def test_what_is_cut_off_is_not_counted_and_what_is_continued_is_counted_again():
    settings = {"removeIncompleteResponse": True, "autoContinueMinTokens": 12}
    model = Model("Abc. d", "Efg. h", "never")
    assert texts(send(model, settings))[-1] == "Abc. Efg. "
    assert len(model.requests) == 2


def test_a_stream_is_continued_where_its_new_part_ends_open():
    model = Model(["One ", "two"], [" three", "."])
    assert texts(send(model, {"useStreaming": True, "autoContinueChat": True}))[-1] == "One two three."


def test_a_member_that_is_gone_answers_under_an_id_of_its_own():
    party = group(orderByOrder=True, characters=["c0", "lost"])
    result = send(Model("Yes."), character=party, members=MEMBERS)
    said = [message.saying for message in result.chat.messages[-2:]]
    assert said[0] == "c0"
    assert said[1] not in {"lost", "", None}


def test_a_reply_that_never_ends_is_given_up_on():
    model = Model("again")
    result = send(model, {"autoContinueChat": True, "maxContext": 10**6}, preset=None)
    assert not result.ok
    assert len(model.requests) == MAX_ROUNDS


def test_an_unwanted_script_is_asked_for_again():
    model = Model("Привет", "Hello.")
    result = send(model, {"banCharacterset": ["Cyrillic", "Klingonish"]})
    assert texts(result)[-1] == "Hello."
    assert any("Klingonish" in warning for warning in result.warnings)


def test_pieces_are_stored_as_they_come():
    result = send(Model(["A s", "word."]), {"useStreaming": True})
    assert texts(result)[-1] == "A sword."


def test_the_echo_model_asks_nobody():
    model = Model("x")
    result = send(model, {"echoMessage": "Echo!"}, preset=preset(ai_model="echo_model"))
    assert texts(result)[-1] == "Echo!"
    assert model.requests == []


def test_a_round_lets_every_member_speak_and_hear_the_others():
    model = Model("One.", "Two.", "Three.")
    result = send(model, character=group(orderByOrder=True), members=MEMBERS, message="Hi all.")
    assert [(message.saying, message.data) for message in result.chat.messages[-3:]] == [
        ("c0", "One."),
        ("c1", "Two."),
        ("c2", "Three."),
    ]
    assert "<Bea's Message>\nOne.\n</Bea's Message>" in [each["content"] for each in model.requests[1].messages]


def test_a_group_in_which_nobody_can_speak_is_reported():
    result = send(Model("x"), character=group((0, 0, 0)), members=MEMBERS)
    assert not result.ok
    assert result.error is not None
    assert result.error.code == "nobody_speaks"
    assert "no one" in result.warnings[-1]


async def test_sends_work_in_asynchronous_programs():
    async def reply(request: ModelRequest) -> str:
        return f"{len(request.messages)} messages."

    result = await Builder().send_async(reply, **inputs())
    assert result.chat.messages[-1].data.endswith("messages.")


async def test_asynchronous_replies_may_come_in_pieces_or_fail():
    async def pieces(request: ModelRequest) -> AsyncIterator[str]:
        for piece in ("A", " b."):
            yield piece

    async def refuse(request: ModelRequest) -> str:
        raise RequestFailedError("no")

    result = await Builder().send_async(pieces, **inputs())
    assert result.chat.messages[-1].data == "A b."
    assert not (await Builder().send_async(refuse, **inputs())).ok


def test_a_model_may_answer_with_any_iterable():
    def pieces(request: ModelRequest) -> Iterator[str]:
        yield from ("x", "y.")

    assert Builder().send(pieces, **inputs()).chat.messages[-1].data == "xy."


@pytest.mark.parametrize(
    ("text", "closed"),
    [("", True), ("Yes.", True), ("Yes. ", True), ("no", False), ("終わり。", True), ("a\u0301", True)],
)
def test_sentences_end_as_risu_ai_sees_it(text: str, closed: bool):
    assert ends_closed(text) is closed


def test_an_unfinished_sentence_is_cut_off():
    assert cut_incomplete("One. Two. Th") == "One. Two. "
    assert cut_incomplete("nothing ends") == ""


def test_scripts_are_recognised_by_unicode():
    assert has_banned_script("안녕", ["Hangul"], print)
    assert not has_banned_script("hello", ["Hangul"], print)


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_answers_in_place_of_a_function(stream: bool):
    scripted = ScriptedModel(streamed("Swo", "rds."), name="mine")
    result = send(scripted, {"useStreaming": stream}, message="What do you sell?")
    assert result.ok
    assert texts(result)[-1] == "Swords."
    body: Any = scripted.requests[0]
    assert (body["model"], body.get("stream", False)) == ("mine", stream)
    assert body["messages"][-1]["content"].endswith("What do you sell?")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_answers_asynchronous_programs(stream: bool):
    given = inputs(token_estimator=Characters(), settings=Settings.from_json({"useStreaming": stream}), message="Hi")
    result = await Builder().send_async(tk.model("scripted", replies=["Hello."]), **given)
    assert texts(result)[-1] == "Hello."
    with pytest.raises(tk.ConfigError, match="send_async"):
        Builder().send(tk.model("scripted", replies=["Hello."]), **given)


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_fails_is_a_failed_send(stream: bool):
    result = send(ScriptedModel(failure(500, "on fire"), repeat_last=True), {"useStreaming": stream}, message="Hi")
    assert not result.ok
    assert result.error is not None
    assert "on fire" in result.error.message


def test_a_stream_that_breaks_keeps_what_was_said(caplog: pytest.LogCaptureFixture):
    result = send(ScriptedModel(Disconnect(after=["Swo", "rds"])), {"useStreaming": True}, message="Hi")
    assert texts(result)[-1] == "Swords"
    assert "broke off" in caplog.text
