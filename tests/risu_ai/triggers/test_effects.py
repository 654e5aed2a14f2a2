"""What effects do with each other, and with what is missing or odd."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._objects import RisuCharacter, RisuModule, RisuSettings
from tavernkit.risu_ai._triggers import TriggerEngine
from tests.risu_ai.triggers.programs import run, setvar, trigger, world

PLAIN = frozenset({"outputVar", "var", "condition", "operator", "role", "location", "indent", "endOfLoop", "target"})


def v2(kind: str, out: str = "", indent: object = 0, **fields: str) -> dict[str, Any]:
    """An effect whose operands are texts, or variables where they begin with ``=``."""
    effect: dict[str, Any] = {"type": f"v2{kind}", "indent": indent}
    for name, value in fields.items():
        effect[name] = value.removeprefix("=") if name not in PLAIN else value
        if name not in PLAIN:
            effect[f"{name}Type"] = "var" if value.startswith("=") else "value"
    return {**effect, "outputVar": out} if out else effect


def regex(kind: str, pattern: str, out: str, **fields: str) -> dict[str, Any]:
    return {**v2(kind, out, flags="", **fields), "regex": pattern, "regexType": "value"}


def call(name: str) -> dict[str, str]:
    return {"type": "runtrigger", "value": name}


HALVES = (v2("GetCharAt", "high", source="😀", index="0"), v2("GetCharAt", "low", source="😀", index="1"))


@pytest.mark.parametrize(
    "effects",
    [
        (v2("SplitString", "list", source="😀", delimiter=""), v2("JoinArrayVar", "o", var="list", delimiter="")),
        (regex("ExtractRegex", "(.)(.)", "o", value="😀", result="$1$2"),),
        (regex("ReplaceString", "x", "o", source="x", result="{{u::d83d}}$2{{u::de00}}", replacement=""),),
        (v2("SetCharAt", "o", source="=high", index="1", value="=low"),),
        (v2("ConcatString", "o", source1="=high", source2="=low"),),
        (v2("SetVar", var="o", operator="=", value="{{getvar::high}}{{getvar::low}}"),),
    ],
)
def test_two_halves_of_a_character_that_meet_are_that_character(effects: tuple[dict[str, Any], ...]) -> None:
    assert run(trigger(*HALVES, *effects))["o"] == "😀"


@pytest.mark.parametrize(
    ("effect", "given", "found"),
    [
        (v2("GetIndexOfValueInArrayVar", "o", var="g", value="b"), '"😀b"', "2"),
        (v2("GetIndexOfValueInArrayVar", "o", var="g", value="c"), '"😀b"', "-1"),
        (v2("GetArrayVarLength", "o", var="g"), '{"length":"3"}', "3"),
        (v2("GetArrayVarLength", "o", var="g"), "true", "0"),
        (v2("GetArrayVar", "o", var="g", index="1"), "[0,false]", False),
        (v2("SplitString", "o", source="", delimiter="x"), "", '[""]'),
        ({**v2("SplitString", "o", source="", delimiter="(?:)"), "delimiterType": "regex"}, "", "[]"),
        (
            {**v2("SplitString", "o", source="a1", delimiter="/(1)(x)?/"), "delimiterType": "regex"},
            "",
            '["a","1",null,""]',
        ),
        ({**v2("SplitString", "o", source="axb", delimiter="/x/gg"), "delimiterType": "regex"}, "", '["axb"]'),
        ({**v2("SplitString", "o", source="a/b", delimiter="/"), "delimiterType": "regex"}, "", '["a","b"]'),
        (v2("SetCharAt", "o", source="ab", index="9", value="c"), "", "abc"),
        (v2("SetCharAt", "o", source="ab", index="4294967295", value="c"), "", "ab"),
    ],
)
def test_lists_and_texts_in_odd_shapes(effect: dict[str, Any], given: str, found: object) -> None:
    assert run(trigger(effect), variables={"g": given})["o"] == found


@pytest.mark.parametrize(
    ("source", "pattern", "found"),
    [("abc", "(?<n>a)b", "0c"), ("1a1b", "(?<n>a1)b", "1aRb"), ("xab", "(a)b", "x")],
)
def test_after_named_groups_the_offset_of_the_match_is_another_group(source: str, pattern: str, found: str) -> None:
    effect = v2("ReplaceString", "o", source=source, regex=pattern, result="$2", replacement="R", flags="")
    assert run(trigger(effect))["o"] == found


def test_a_number_that_is_no_index_changes_no_list() -> None:
    outcome = run(trigger(v2("SetArrayVar", var="g", index="1e21", value="c")), variables={"g": "[1]"})
    assert (outcome.result.outcome, outcome["g"]) == ("ok", "[1]")


def test_keys_that_are_numbers_come_first_in_a_dictionary() -> None:
    pairs = [{**v2("SetDictVar", var="d", key=key, value=key), "varType": "var"} for key in ("b", "10", "2", "01")]
    outcome = run(trigger({"type": "v2MakeDictVar", "var": "d"}, *pairs, v2("GetDictKeys", "keys", var="d")))
    assert outcome["d"] == '{"2":"2","10":"10","b":"b","01":"01"}'
    assert outcome["keys"] == '["2","10","b","01"]'


@pytest.mark.parametrize(
    ("given", "left"),
    [('{"a":"1"}', '{"a":"1"}'), ("no object", "{}"), ('{"__proto__":"own"}', '{"__proto__":"text"}')],
)
def test_nothing_is_stored_under_the_key_of_the_prototype(given: str, left: str) -> None:
    effect = {**v2("SetDictVar", var="d", key="__proto__", value="text"), "varType": "var"}
    assert run(trigger(effect), variables={"d": given})["d"] == left


@pytest.mark.parametrize(
    ("given", "key", "left"),
    [
        ('"abc"', "a", '"abc"'),
        ('"abc"', "1", "{}"),
        ('"abc"', "length", "{}"),
        ("[1,2]", "length", "{}"),
        ("[1,2]", "5", "[1,2]"),
        ("5", "a", "5"),
        ("null", "a", "{}"),
    ],
)
def test_keys_are_deleted_as_javascript_does(given: str, key: str, left: str) -> None:
    effect = {**v2("DeleteDictKey", var="d", key=key), "varType": "var"}
    assert run(trigger(effect), variables={"d": given})["d"] == left


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        ({"type": "value", "var": 5, "operator": "=", "value": "5"}, True),
        ({"type": "value", "var": None, "operator": "=", "value": "null"}, False),
        ({"type": "var", "operator": "=", "value": "u"}, True),
        ({"type": "var", "var": "set", "value": ""}, True),
        ({"type": "var", "var": "set", "operator": None, "value": ""}, True),
        ({"type": "var", "var": "set", "operator": "null", "value": ""}, False),
        ({"type": "exists", "value": "first", "type2": "loose", "depth": -1}, False),
        ({"type": "exists", "value": "FIRST", "type2": "loose"}, True),
        ({"type": "chatindex", "operator": ">", "value": ""}, True),
    ],
)
def test_conditions_with_odd_sides(condition: dict[str, Any], held: bool) -> None:
    outcome = run(
        trigger(setvar("ran", "1"), conditions=[condition]),
        variables={"undefined": "u", "null": "n", "set": "s"},
        messages=[("user", "first"), ("char", "second")],
    )
    assert (outcome["ran"] == "1") is held


def test_calls_of_siblings_and_depth_share_one_budget() -> None:
    calling = trigger(*[call("n")] * 12)
    nested = trigger(setvar("n", "1", "+="), call("m"), name="n", mode="manual")
    deepest = trigger(setvar("m", "1", "+="), name="m", mode="manual")
    outcome = run(calling, nested, deepest)
    assert (outcome["n"], outcome["m"]) == ("10", "9")
    outcome = run(calling, nested, deepest, lowLevelAccess=True)
    assert (outcome["n"], outcome["m"]) == ("12", "12")


def test_a_run_that_a_trigger_starts_takes_the_trigger_id_away() -> None:
    seen = trigger(call("n"), setvar("after", "{{trigger_id}}"))
    inner = trigger(setvar("inside", "{{trigger_id}}"), name="n", mode="manual")
    result = TriggerEngine().run(world(seen, inner), "start", trigger_id="button")
    assert (result.variables["inside"], result.variables["after"]) == ("null", "null")
    assert result.trigger_id is None


@pytest.mark.parametrize(
    ("effects", "reloads"),
    [
        ((setvar("a", "1"), call("n"), call("n")), 3),
        ((call("n"), call("n")), 2),
        ((v2("DeclareLocalVar", var="a", value="1"), setvar("a", "2")), 0),
        ((v2("UpdateGUI"), setvar("a", "1"), setvar("a", "2")), 2),
    ],
)
def test_every_run_that_writes_variables_draws_the_screen_once(effects: tuple[Any, ...], reloads: int) -> None:
    nested = trigger(setvar("b", "1"), name="n", mode="manual")
    assert run(trigger(*effects), nested).result.reloads.screen == reloads


def test_storing_the_character_brings_the_old_note_back_until_the_chat_is_accepted() -> None:
    result = run(trigger(v2("SetAuthorNote", value="new"), v2("SetCharacterDesc", value="d"))).result
    assert result.stored.context.chat.note == ""
    assert result.applied().context.chat.note == "new"


def test_what_a_nested_run_changes_about_the_character_goes_with_the_next_change_of_its_caller() -> None:
    nested = trigger(v2("SetCharacterDesc", value="nested"), name="n", mode="manual")
    stored = run(trigger(call("n"), v2("SetReplaceGlobalNote", value="note")), nested, desc="old").result.stored
    assert stored.context.character is not None
    raw = stored.context.character.raw
    assert (raw["desc"], raw["replaceGlobalNote"]) == ("old", "note")


def test_a_local_variable_below_the_first_indent_is_seen_by_nobody() -> None:
    outcome = run(trigger(v2("DeclareLocalVar", var="a", value="local", indent=-1), setvar("a", "chat")))
    assert outcome["a"] == "chat"


def test_texts_for_places_that_do_not_exist_are_kept_apart_and_not_counted() -> None:
    def add(text: str, **place: str) -> dict[str, str]:
        return {"type": "systemprompt", "value": text, **place}

    result = run(trigger(add("a", location="middle"), add("b", location="middle"), add("c"))).result
    assert result.additions.elsewhere == {"middle": "undefineda\n\nb\n\n", "undefined": "undefinedc\n\n"}
    assert result.tokens == 0
    again = TriggerEngine().run(world(trigger(add("d", location="middle"))), "start", additions=result.additions)
    assert again.additions.elsewhere["middle"] == "undefineda\n\nb\n\nd\n\n"


def test_the_trigger_command_does_nothing_in_a_group() -> None:
    module = RisuModule.from_json({"id": "m", "trigger": [trigger(setvar("a", "1"), name="n", mode="manual")]})
    settings = RisuSettings(modules=(module,), enabled_modules=("m",))
    for kind, found in (("character", {"a": "1"}), ("group", {})):
        owner = RisuCharacter.from_json({"name": "Mira", "chaId": "c", "type": kind})
        result = TriggerEngine().command(CBSContext(char=owner, settings=settings), "/trigger n")
        assert result.value is None
        assert result.stored.variables == found


def test_what_effects_did_is_recorded() -> None:
    found = run(
        trigger(
            {"type": "impersonate", "role": "user", "value": "hi"},
            {"type": "modifychat", "index": "0", "value": "ho"},
            {"type": "cutchat", "start": "0", "end": "0"},
            {"type": "systemprompt", "location": "start", "value": "S"},
            {"type": "v2SetCharacterDesc", "value": "D", "valueType": "value"},
            {"type": "runtrigger", "value": "sub"},
        )
    )
    assert [(event.kind, event.detail) for event in found.result.events] == [
        ("message", ("added", "user", "hi")),
        ("message", ("changed", 0, "ho")),
        ("message", ("kept", 0, 1)),
        ("prompt", ("start", "S")),
        ("character", ("desc",)),
        ("nested_run", ("sub",)),
    ]
