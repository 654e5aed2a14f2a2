"""The calls that the trigger vectors make: runs, edit passes, buttons, whole edit steps and command lines."""

from __future__ import annotations

from typing import Any

from tavernkit._text.js_values import to_string
from tavernkit.risu_ai._regex_scripts import RegexScriptRunner, scripts_of
from tavernkit.risu_ai._triggers import StoredState, TriggerEngine
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
    return CALLS[given.get("call", "trigger")](world, engine, given)


def trigger(world: World, engine: TriggerEngine, given: Any) -> dict[str, Any]:
    result = engine.run(
        world.context,
        given["mode"],
        name=given.get("manualName", ""),
        trigger_id=given.get("triggerId"),
        temp_variables=given.get("tempVars"),
        recursion=given.get("recursiveCount", 0),
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
    text, mode, index = given["data"], given["mode"], given.get("chatID", -1)
    actual: dict[str, Any] = {}
    if mode != "editprocess":
        edited = engine.edit_text(world.context, EDIT_KINDS[mode], text, index=index, **world.options)
        world.keep(edited.stored)
        text = to_string(edited.data)
        actual = {"stored": world.stored(edited.stored), **world.effects(edited)}
    result = RegexScriptRunner().run(text, mode, scripts_of(world.context, []), world.context, index=index)
    actual.setdefault("stored", world.stored(StoredState(context=world.context, variables={})))
    return {**actual, "returned": {"data": result.text, "emoChanged": result.emotion_changed}}


def command(world: World, engine: TriggerEngine, given: Any) -> dict[str, Any]:
    result = engine.command(world.context, given["command"], **world.options)
    world.keep(result.stored)
    actual = {"stored": world.stored(result.stored), **world.effects(result)}
    if result.error is not None:
        return {**actual, "error": error_class(result.error)}
    return {**actual, "returned": "undefined" if result.value is None else result.value}


CALLS = {
    "trigger": trigger,
    "luaEdit": lua_edit,
    "luaButton": lua_button,
    "processScript": process_script,
    "command": command,
}
