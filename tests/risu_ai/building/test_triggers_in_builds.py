from __future__ import annotations

import random
from typing import Any

import pytest

from tavernkit.errors import PipelineError
from tavernkit.risu_ai import Builder, RisuModule, Settings
from tavernkit.risu_ai._memory import MemoryModels
from tavernkit.stores import InMemoryVariablesStore
from tests.risu_ai.building.scene import STANDARD, build, character, contents, inputs, omitted, preset


def trigger(*effects: dict[str, Any], kind: str = "start", **fields: Any) -> dict[str, Any]:
    return {"comment": "t", "type": kind, "conditions": [], "effect": list(effects), **fields}


def added(location: str, text: str) -> dict[str, Any]:
    return {"type": "systemprompt", "location": location, "value": text}


def test_texts_of_triggers_stand_around_the_last_message():
    owner = character(triggerscript=[trigger(added("start", "S"), added("historyend", "H"), added("promptend", "E"))])
    found = contents(build(character=owner, preset=preset(ai_model="mistral-large-latest")))
    assert found[-4:] == ["S", "What now?", "H", "E"]


def test_a_template_has_no_place_for_some_of_them_and_that_is_reported():
    owner = character(triggerscript=[trigger(added("start", "S"), added("promptend", "E"))])
    plan = build(character=owner, preset=preset(STANDARD))
    assert contents(plan)[-1].endswith("E")
    assert "no such trigger texts" in omitted(plan)["start and historyend"]


def test_a_build_that_fails_changes_nothing():
    variables = InMemoryVariablesStore()
    write = {"type": "setvar", "operator": "=", "var": "mood", "value": "calm"}
    owner = character(triggerscript=[trigger(write, {"type": "extractRegex"})], lowLevelAccess=True)
    with pytest.raises(PipelineError):
        build(character=owner, variables=variables, strict=True)
    assert not variables.has("mood")


def test_texts_for_places_that_do_not_exist_are_reported():
    plan = build(character=character(triggerscript=[trigger(added("middle", "M"))]))
    assert "M" not in "".join(contents(plan)).replace("Main.", "")
    assert omitted(plan)["trigger middle"] == "triggers cannot add texts to the prompt at 'middle'"


def test_variables_of_triggers_are_stored_and_seen_by_cards():
    variables = InMemoryVariablesStore()
    owner = character(triggerscript=[trigger({"type": "setvar", "operator": "=", "var": "mood", "value": "calm"})])
    cards = [{"type": "plain", "type2": "main", "text": "{{getvar::mood}}", "role": "system"}, *STANDARD[4:5]]
    plan = build(character=owner, preset=preset(cards), variables=variables)
    assert contents(plan)[0] == "calm"
    assert plan.variables.values == {"local": {"mood": "calm"}}


def test_a_trigger_may_stop_the_send():
    plan = build(character=character(triggerscript=[trigger({"type": "stop"})]))
    assert plan.stopped
    assert plan.blocks == ()
    assert omitted(plan)["everything"] == "a start trigger stopped the send"


def test_triggers_of_modules_run_too():
    module = RisuModule.from_json({"id": "m", "name": "M", "trigger": [trigger(added("promptend", "from module"))]})
    assert contents(build(modules=[module]))[-1].endswith("from module")


def test_an_error_in_a_trigger_is_reported_and_raised_in_strict_mode():
    owner = character(triggerscript=[trigger({"type": "extractRegex"})], lowLevelAccess=True)
    plan = build(character=owner)
    assert plan.warnings
    assert "What now?" in contents(plan)
    with pytest.raises(PipelineError):
        build(character=owner, strict=True)


def test_input_triggers_run_before_the_users_message_is_stored():
    first = trigger({"type": "impersonate", "role": "char", "value": "Wait."}, kind="input")
    plan = build(character=character(triggerscript=[first]), message="Now?")
    assert [message.data for message in plan.chat.messages[-2:]] == ["Wait.", "Now?"]


def test_request_triggers_edit_what_is_sent_and_not_what_is_built():
    edit = {"type": "v2SetRequestState", "index": "0", "indexType": "value", "value": "X", "valueType": "value"}
    owner = character(triggerscript=[trigger({**edit, "indent": 0}, kind="request")])
    asked: list[Any] = []
    result = Builder().send(lambda request: str(asked.append(request.messages)), **inputs(character=owner))
    assert asked[0][0]["content"] == "X"
    assert result.plans[0].blocks[0].content == "Main.\n\nA smith."


def test_background_is_searched_when_there_is_an_embedder():
    owner = character(additionalText="cats\n\ndogs\n\nboats\n\nseas")
    assert any("additional text" in warning for warning in build(character=owner).warnings)

    def embed(texts: Any) -> list[list[float]]:
        return [[float("boat" in text or "What" in text), float("sea" in text)] for text in texts]

    models = MemoryModels(summarize=lambda _: "", embed=embed)
    plan = build(character=owner, memory=models)
    assert "\n\nboats\n\ncats\n\ndogs" in contents(plan)[0]


def test_memory_is_found_again_on_the_chat_of_the_plan():
    settings = Settings.from_json(
        {"hypaV3": True, "hypaV3Presets": [{"settings": {"memoryTokensRatio": 0.3}}], "hypaV3PresetId": 0}
    )
    chat = {"message": [{"role": "user", "data": "word " * 40, "chatId": f"m{n}"} for n in range(12)], "fmIndex": -1}
    asked: list[Any] = []

    def summarize(messages: Any) -> str:
        asked.append(messages)
        return "They talked."

    models = MemoryModels(summarize=summarize, embed=lambda texts: [[1.0] for _ in texts])
    given = inputs(
        character=character(supaMemory=True),
        settings=settings,
        memory=models,
        preset=preset(STANDARD, max_context=600, max_response=50),
        history=chat,
    )
    first = Builder().build(**given)
    assert "They talked." in first.chat.raw["hypaV3Data"]["summaries"][0]["text"]  # type: ignore[index, call-overload]
    count = len(asked)
    later: dict[str, Any] = {**given, "history": first.chat}
    again = Builder().build(**later)
    assert len(asked) == count, "what is summarised is not summarised again"
    assert any("They talked." in text for text in contents(again))


def test_memory_without_models_is_reported():
    settings = Settings.from_json({"hypaV3": True})
    plan = build(character=character(supaMemory=True), settings=settings)
    assert any("MemoryModels" in warning for warning in plan.warnings)
    assert "What now?" in contents(plan)


def test_triggers_see_and_change_the_selected_persona():
    read = {"type": "v2GetPersonaDesc", "outputVar": "who", "indent": 0}
    write = {"type": "v2SetPersonaDesc", "value": "Changed.", "valueType": "value", "indent": 0}
    personas = [{"name": "Ann", "personaPrompt": "First."}, {"name": "Ben", "personaPrompt": "Second."}]
    settings = Settings.from_json({"personas": personas, "selectedPersona": 1})
    variables = InMemoryVariablesStore()
    owner = character(triggerscript=[trigger(read, write)])
    cards = [{"type": "plain", "type2": "main", "text": "{{persona}}", "role": "system"}, *STANDARD[4:5]]
    plan = build(character=owner, settings=settings, variables=variables, preset=preset(cards))
    assert plan.variables.values["local"]["who"] == "Second."
    assert contents(plan)[0] == "Changed."


@pytest.mark.parametrize(("script", "forgotten"), [("", False), ("reloadDisplay(id)", True)])
def test_drawing_the_screen_again_forgets_results_of_regex_scripts(script: str, forgotten: bool) -> None:
    code = f"listenEdit('editRequest', function(id, messages) {script} return messages end)"
    owner = character(
        triggerscript=[trigger({"type": "triggerlua", "code": code})],
        customscript=[{"in": "What", "out": "{{random}}", "type": "editprocess"}],
    )
    builder = Builder(**inputs(character=owner, random=random.Random(1).random, variables=InMemoryVariablesStore()))
    first, second = (contents(builder.build())[-1] for _ in range(2))
    assert (first != second) == forgotten
