from __future__ import annotations

from typing import Any

from tavernkit.risu_ai.regex_scripts import RegexScriptRunner, ScriptMode, scripts_of
from tavernkit.risu_ai.triggers import StoredState, TriggerEngine
from tests.conformance.adapters.risu_ai.trigger_inputs import World, error_class
from tests.conformance.runner import Case

EDIT_KINDS = {
    "editinput": "editInput",
    "editoutput": "editOutput",
    "editdisplay": "editDisplay",
    "editprocess": "editProcess",
    "editRequest": "editRequest",
}


def run(case: Case) -> object:
    given = case.input
    world, engine = World(given), TriggerEngine()
    if "steps" in given:
        return {"steps": [step(world, engine, each) for each in given["steps"]]}
    return step(world, engine, given)


def step(world: World, engine: TriggerEngine, given: Any) -> dict[str, Any]:
    return CALLS[given["call"]](world, engine, given)


def trigger(world: World, engine: TriggerEngine, given: Any) -> dict[str, Any]:
    result = engine.run(
        world.context,
        given["mode"],
        name=given.get("manualName", ""),
        display_data=given.get("displayData"),
        **world.options,
    )
    actual = world.trigger(result)
    stored = result.applied() if given.get("apply") else result.stored
    world.keep(stored)
    return {**actual, "stored": world.stored(stored)}


def lua_edit(world: World, engine: TriggerEngine, given: Any) -> dict[str, Any]:
    index = given.get("meta", {}).get("index")
    result = engine.edit(world.context, EDIT_KINDS[given["mode"]], given["data"], index=index, **world.options)
    world.keep(result.stored)
    return {"returned": result.data, "stored": world.stored(result.stored), **world.effects(result)}


def lua_button(world: World, engine: TriggerEngine, given: Any) -> dict[str, Any]:
    result = engine.click(world.context, given["data"], **world.options)
    world.keep(result.stored)
    actual = {"stored": world.stored(result.stored), **world.effects(result)}
    if result.error is not None:
        return {**actual, "error": error_class(result.error)}
    if not result.handled:
        return {**actual, "returned": "undefined"}
    stored = result.stored
    chat = world.chat_json(stored.context.chat, stored.variables, stored.removed)
    return {**actual, "returned": {"stopSending": result.stop_sending, "res": result.result}, "chat": chat}


def process_script(world: World, engine: TriggerEngine, given: Any) -> dict[str, Any]:
    def before(text: str, mode: ScriptMode, index: int) -> str:
        edited = engine.edit_text(world.context, EDIT_KINDS[mode], text, index=index, **world.options)
        world.keep(edited.stored)
        assert isinstance(edited.data, str)
        return edited.data

    context = world.context
    scripts = scripts_of(context, [])
    runner = RegexScriptRunner()
    result = runner.run(given["data"], given["mode"], scripts, context, index=given["chatID"], before=before)
    stored = StoredState(context=world.context, variables={})
    returned = {"data": result.text, "emoChanged": result.emotion_changed}
    return {"returned": returned, "stored": world.stored(stored)}


CALLS = {"trigger": trigger, "luaEdit": lua_edit, "luaButton": lua_button, "processScript": process_script}
