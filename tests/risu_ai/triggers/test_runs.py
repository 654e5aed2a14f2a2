"""What a run returns, and that it touches nothing it was given."""

from __future__ import annotations

import dataclasses

import pytest

from tavernkit.errors import ConfigError
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, RisuModule, RisuSettings
from tavernkit.risu_ai._triggers import TriggerEngine, run_triggers
from tavernkit.risu_ai.errors import TriggerError, TriggerRecursionError
from tavernkit.stores._variables import InMemoryVariablesStore
from tests.risu_ai.triggers.programs import lua, run, setvar, trigger, world

HELLO = {"type": "impersonate", "role": "user", "value": "Hi {{char}}"}


def test_inputs_stay_as_they_are() -> None:
    context = world(
        trigger(setvar("gold", "5", "+="), HELLO, {"type": "v2SetCharacterDesc", "value": "x", "valueType": "value"}),
        messages=[("char", "Hello")],
        variables={"gold": "1"},
    )
    store, chat, character = context.variables, context.chat, context.character
    result = TriggerEngine().run(context, "start")
    assert result.variables == {"gold": "6"}
    assert [message.data for message in result.chat.messages] == ["Hello", "Hi Mira"]
    assert store.get("gold") == "1"
    assert context.chat is chat
    assert len(chat.messages) == 1
    assert context.character is character
    assert character is not None
    assert character.description is None


@pytest.mark.parametrize("operator", [{"a": 1}, ["="], 3, None])
def test_an_operator_that_is_none_empties_the_variable(operator: object) -> None:
    for kind in ("setvar", "v2SetVar"):
        effect = {"type": kind, "operator": operator, "var": "v", "value": "1", "valueType": "value"}
        assert run(trigger(effect), variables={"v": "2"}).result.variables == {"v": ""}


def test_variables_are_stored_at_once_and_messages_when_applied() -> None:
    result = run(trigger(setvar("a", "1"), HELLO)).result
    assert result.stored.variables == {"a": "1"}
    assert result.stored.context.chat.messages == ()
    assert [message.data for message in result.applied().context.chat.messages] == ["Hi Mira"]


def test_saved_variables_reach_the_application() -> None:
    store = InMemoryVariablesStore({"local": {"a": "0", "kept": "k"}})
    run(trigger(setvar("a", "1"))).result.stored.save_variables(store)
    assert store.to_dict() == {"local": {"a": "1", "kept": "k"}}


def test_a_next_run_sees_what_the_last_one_stored() -> None:
    engine = TriggerEngine()
    context = world(trigger(setvar("n", "1", "+=")))
    for _ in range(3):
        context = engine.run(context, "start").applied().context
    assert context.chat_variable("n") == "3"


def test_no_triggers_is_no_result() -> None:
    assert run().result.outcome == "none"


def test_a_trigger_of_another_mode_leaves_everything() -> None:
    outcome = run(trigger(setvar("a", "1"), mode="output"))
    assert outcome.result.ok
    assert outcome["a"] is None


def test_an_abort_keeps_variables_and_loses_the_chat() -> None:
    outcome = run(trigger(setvar("a", "1"), HELLO, {"type": "v2GetDisplayState", "outputVar": "x"}))
    assert outcome.result.outcome == "aborted"
    assert outcome.result.stored.variables == {"a": "1"}
    assert outcome.result.chat.messages == ()
    assert outcome.result.applied() is outcome.result.stored


def test_what_risuai_throws_is_reported() -> None:
    broken = {"type": "v2ExtractRegex", "value": "", "valueType": "value", "regex": "(", "regexType": "value"}
    outcome = run(trigger({**broken, "flags": "", "flagsType": "value", "result": "", "resultType": "value"}))
    assert outcome.result.outcome == "error"
    assert outcome.result.error is not None
    assert outcome.result.error.effect_type == "v2ExtractRegex"
    assert "trigger 't' (v2ExtractRegex) failed" in outcome.warnings[0]


def test_strict_mode_raises_what_risuai_throws() -> None:
    with pytest.raises(TriggerError, match="a text is missing") as caught:
        run(trigger(setvar("a", "1"), {"type": "setvar", "operator": "="}), strict=True)
    assert (caught.value.trigger_type, caught.value.effect_type) == ("start", "setvar")
    assert caught.value.stored is not None
    assert caught.value.stored.variables == {"a": "1"}


def test_the_eleventh_nested_run_is_left_out_with_a_warning() -> None:
    outcome = run(trigger(setvar("n", "1", "+="), {"type": "runtrigger", "value": "t"}))
    assert outcome["n"] == "11"
    assert "more than 10 other runs" in outcome.warnings[0]


def test_strict_mode_raises_for_the_eleventh_nested_run() -> None:
    with pytest.raises(TriggerRecursionError):
        run(trigger({"type": "runtrigger", "value": "t"}), strict=True)


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(ConfigError, match="start, manual, output"):
        run(mode="begin")


def test_unknown_edit_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match="editRequest"):
        TriggerEngine().edit(world(), "editEverything", "x")


def test_the_log_says_what_was_done_and_what_was_skipped() -> None:
    outcome = run(trigger(setvar("a", "1"), {"type": "runLLM", "value": "x", "inputVar": "y"}, {"type": "dance"}))
    events = [(event.kind, event.effect, event.detail) for event in outcome.result.events]
    assert events == [
        ("variable", "setvar", ("a", "1")),
        ("skipped", "runLLM", ("low level access is needed",)),
        ("skipped", "dance", ("there is no such effect",)),
    ]


def test_a_trigger_that_is_held_back_by_its_conditions_is_noted() -> None:
    held = trigger(setvar("a", "1"), conditions=[{"type": "var", "var": "x", "operator": "=", "value": "1"}])
    assert [event.kind for event in run(held).result.events] == ["conditions_failed"]


def test_module_rights_do_not_extend_to_the_character() -> None:
    ask = {"type": "runLLM", "value": "x", "inputVar": "y"}
    module = RisuModule.from_json({"id": "m", "name": "Shop", "lowLevelAccess": True, "trigger": [trigger(ask)]})
    context = world(trigger(ask)).replace(settings=RisuSettings(modules=(module,), enabled_modules=("m",)))
    result = TriggerEngine().run(context, "start", warn=lambda message: None)
    assert [(event.kind, event.refused) for event in result.events][:2] == [("skipped", False), ("llm", True)]


def test_a_group_has_no_triggers_of_its_own() -> None:
    group = RisuCharacter.from_json({"type": "group", "triggerscript": [trigger(setvar("a", "1"))]})
    assert run_triggers(CBSContext(char=group), "start").outcome == "none"


def test_a_speaking_member_runs_its_own_triggers() -> None:
    group = RisuCharacter.from_json({"type": "group", "name": "Both"})
    member = RisuCharacter.from_json({"name": "Bel", "chaId": "bel", "triggerscript": [trigger(setvar("a", "1"))]})
    change = {"type": "v2SetCharacterDesc", "value": "new", "valueType": "value"}
    member = dataclasses.replace(member, raw={**member.raw, "triggerscript": [trigger(change)]})
    result = run_triggers(CBSContext(char=group, speaker=member, characters=(group, member)), "start")
    stored = result.stored.context
    assert stored.character is not None
    assert stored.character.is_group
    assert stored.characters[1].description == "new"


def test_additions_are_counted_with_the_given_counter() -> None:
    context = world(trigger({"type": "systemprompt", "location": "promptend", "value": "Be brief."}))
    result = TriggerEngine().run(context, "start", count_tokens=len)
    assert result.additions.promptend == "Be brief.\n\n"
    assert result.tokens == 11


def test_request_triggers_edit_messages_and_errors_leave_them() -> None:
    engine = TriggerEngine()
    change = {"type": "v2SetRequestState", "index": "0", "indexType": "value", "value": "new", "valueType": "value"}
    messages = [{"role": "user", "content": "old", "memo": "m"}]
    good = engine.edit_request(world(trigger(change, mode="request")), messages)
    assert good == [{"role": "user", "content": "new", "memo": "m"}]
    far = {**change, "index": "7"}
    assert engine.edit_request(world(trigger(change, far, mode="request")), messages, warn=lambda m: None) == messages


def test_display_text_passes_listeners_and_then_triggers() -> None:
    listener = lua("listenEdit('editDisplay', function(id, text) return text .. ' lua' end)")
    shown = {"type": "v2SetDisplayState", "value": "all", "valueType": "value"}
    engine = TriggerEngine()
    assert engine.edit_text(world(listener), "editDisplay", "text").data == "text lua"
    assert engine.edit_text(world(listener, trigger(shown, mode="display")), "editDisplay", "text").data == "all"


def test_commands_work_on_the_stored_chat() -> None:
    context = world().replace(chat=RisuChat(messages=(RisuMessage(role="char", data="a"),)))
    result = TriggerEngine().command(context, "/send hi {{char}} | /setvar key=x 5")
    assert [message.data for message in result.stored.context.chat.messages] == ["a", "hi Mira"]
    assert result.stored.variables == {"x": "5"}
    assert result.value == ""


def test_a_bar_inside_quotes_belongs_to_the_argument() -> None:
    assert TriggerEngine().command(world(), '/pass "a|b" | /pass {{pipe}}!').value == '"a|b"!'


@pytest.mark.parametrize(("line", "kept"), [("/cut 1", ["b"]), ("/cut 0-2", ["a", "b"]), ("/del 2", ["b", "c"])])
def test_messages_can_be_cut(line: str, kept: list[str]) -> None:
    context = world(messages=[("char", "a"), ("user", "b"), ("char", "c")])
    result = TriggerEngine().command(context, line)
    assert [message.data for message in result.stored.context.chat.messages] == kept


def test_an_id_with_dashes_names_a_message() -> None:
    messages = (RisuMessage(role="char", data="a", raw={"chatId": "6b0-58"}), RisuMessage(role="user", data="b"))
    result = TriggerEngine().command(world().replace(chat=RisuChat(messages=messages)), "/cut 6b0-58")
    assert [message.data for message in result.stored.context.chat.messages] == ["b"]


def test_nothing_listens_to_texts_on_their_way_into_a_prompt() -> None:
    listener = lua(
        "for _, kind in ipairs({'editInput', 'editOutput'}) do listenEdit(kind, function() return 'x' end) end"
    )
    assert TriggerEngine().edit(world(listener), "editProcess", "text").data == "text"


def test_results_of_a_command_are_put_in_as_javascript_does() -> None:
    assert TriggerEngine().command(world(), "/pass $$5 | /pass [{{pipe}}]").value == "[$5]"


def test_a_missing_variable_name_of_a_first_version_effect_is_the_word_undefined() -> None:
    found = run(trigger({"type": "runLLM", "value": "x"}), lowLevelAccess=True)
    assert found["undefined"] == "Error: no model is available"
    extracted = run(
        trigger({"type": "extractRegex", "value": "ab", "regex": "b", "flags": "", "result": "$&"}), lowLevelAccess=True
    )
    assert extracted["undefined"] == "b"


def test_a_missing_pattern_finds_the_empty_text() -> None:
    effect = {"type": "extractRegex", "value": "ab", "result": "[$&]", "inputVar": "r"}
    assert run(trigger(effect), lowLevelAccess=True)["r"] == "[]"


def test_a_command_after_a_trigger_has_nothing_in_its_pipe() -> None:
    engine, context = TriggerEngine(), world(trigger(setvar("a", "1"), name="go", mode="manual"))
    assert engine.command(context, "/trigger go | /pass <{{pipe}}>").value == "<undefined>"
    empty = engine.command(context, "/trigger go | /send", warn=lambda _: None)
    assert empty.error is not None
    assert empty.stored.variables == {"a": "1"}


def test_a_message_to_draw_anew_without_an_index_is_called_undefined() -> None:
    outcome = run(trigger({"type": "v2UpdateChatAt", "indent": 0}))
    assert outcome.result.reloads.messages == {"undefined": 1}


def test_texts_are_split_and_searched_by_code_units() -> None:
    split = {"type": "v2SplitString", "source": "a😀b😀", "sourceType": "value", "delimiterType": "value"}
    second_half = trigger(split | {"delimiter": "{{u::de00}}", "outputVar": "o"})
    assert run(second_half)["o"] == r'["a\ud83d","b\ud83d",""]'
    assert run(trigger(split | {"delimiter": "b", "outputVar": "o"}))["o"] == '["a😀","😀"]'
    search = {"type": "v2QuickSearchChat", "value": "{{u::de00}}", "valueType": "value", "condition": "loose"}
    found = run(trigger(search | {"depth": "1", "depthType": "value", "outputVar": "o"}), messages=[("user", "😀")])
    assert found["o"] == "1"
