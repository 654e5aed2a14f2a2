"""Variables by JavaScript's rules, where the vectors do not look."""

from __future__ import annotations

import pytest

from tavernkit._values import Json
from tavernkit.silly_tavern._macros import ChatVariables, MacroEngine, MacroEnvironment, Overrides, variables
from tavernkit.silly_tavern.errors import UnconsumedMacroError
from tavernkit.stores import InMemoryVariablesStore, VariablesStore

ENGINE = MacroEngine()


def store(**values: Json) -> InMemoryVariablesStore:
    return InMemoryVariablesStore({"local": values})


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ("Infinity", "Infinity"),
        ("-0", "0"),
        ("1e21", "1e+21"),
        ("0.1", "0.1"),
        (" \n", " \n"),
        ([[5]], "5"),
        ({}, "{}"),
        ("0b101", "5"),
    ],
)
def test_reading_writes_numbers_as_javascript_does(stored: Json, read: str) -> None:
    environment = MacroEnvironment(variables=store(v=stored))
    assert ENGINE.expand("{{getvar::v}}", environment) == read


@pytest.mark.parametrize(
    ("stored", "operand", "result"),
    [
        ("0.1", "0.2", 0.30000000000000004),
        ("[5]", "x", '[5,"x"]'),
        ([5], "x", "5x"),
        ([7, 8], "x", "7,8x"),
        (True, "1", 2),
        ("", "x", "x"),
        (None, "2", 2),
    ],
)
def test_adding(stored: Json, operand: str, result: Json) -> None:
    values = store(v=stored)
    variables.add(values, "v", operand, "local")
    assert values.get("v") == result


@pytest.mark.parametrize(
    ("stored", "key", "result"),
    [
        (None, "1", '[null,"x"]'),
        (None, "k", '{"k":"x"}'),
        ("[1,2]", "1.5", "[1,2]"),
        ("[1,2]", "length", None),
        ('"abc"', "0", None),
        ("5", "k", None),
        ("", "k", None),
        ('{"b":1}', "1", '{"1":"x","b":1}'),
    ],
)
def test_writing_to_a_key(stored: Json, key: str, result: str | None) -> None:
    values = store(v=stored)
    assert variables.write_key(values, "v", key, "x", "local") == (result is not None)
    assert values.get("v") == (stored if result is None else result)


@pytest.mark.parametrize(
    ("stored", "key", "result"),
    [
        ('"a🦊"', "length", 3),
        ("[1]", "5", ""),
        ("[1]", "-1", ""),
        ("5", "x", ""),
        ('{"a":{"b":[1]}}', "a", '{"b":[1]}'),
        (5, "0", ""),
    ],
)
def test_reading_a_key(stored: Json, key: str, result: Json) -> None:
    assert variables.read_key(store(v=stored), "v", key, "local") == result


def test_a_key_that_cannot_be_written_is_reported() -> None:
    environment = MacroEnvironment(variables=store(v="plain"))
    (diagnostic,) = ENGINE.evaluate("{{setvarkey::v::k::x}}", environment).diagnostics
    assert (diagnostic.kind, diagnostic.about) == ("ignored", "key")


def test_chat_variables_live_in_the_metadata_of_the_chat() -> None:
    metadata: dict[str, Json] = {}
    settings: dict[str, Json] = {"day": 1}
    chat: VariablesStore = ChatVariables(metadata, settings)
    environment = MacroEnvironment(variables=chat)
    assert ENGINE.expand("{{hasvar::x}}{{deletevar::x}}", environment) == "false"
    assert metadata == {}
    ENGINE.expand("{{.x}}", environment)
    assert metadata == {"variables": {}}
    assert ENGINE.expand("{{.x = 2}}{{$day++}}{{.x += 3}}{{deletevar::none}}", environment) == "2"
    assert (metadata, settings) == ({"variables": {"x": 5}}, {"day": 2})
    assert chat.add("x", 1) == 6
    assert chat.add("name", "Ann", "global") == "Ann"
    assert chat.add("name", 1, "global") == "Ann1"
    assert chat.cache_version


class BrokenStore(InMemoryVariablesStore):
    def get(self, name: str, scope: str = "local") -> Json:
        raise OSError("the disk is gone")


def test_a_store_that_fails_leaves_the_shorthand_and_is_reported() -> None:
    environment = MacroEnvironment(variables=BrokenStore())
    result = ENGINE.evaluate("a {{.x}} b", environment, Overrides())
    assert result.text == "a {{.x}} b"
    (diagnostic,) = result.diagnostics
    assert (diagnostic.kind, diagnostic.position) == ("internal_error", 2)
    assert "{{.x}} failed and stays as text: the disk is gone" in diagnostic.message


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("{{.x =}}[{{.x}}]", "[]"),
        ("{{.x ||=}}[{{.x}}]", "[]"),
        ("{{.x ==}}", "true"),
        ("{{.x !=}}", "false"),
        ("{{.y = 3}}{{.y -=}}[{{.y}}]", "[3]"),
        ("{{.y = 3}}{{.y >}}", "true"),
    ],
)
def test_a_missing_operand_is_empty_text(text: str, written: str) -> None:
    environment = MacroEnvironment(variables=InMemoryVariablesStore())
    assert ENGINE.expand(text, environment) == written


def test_a_comparison_of_what_is_no_number_says_so() -> None:
    environment = MacroEnvironment(variables=InMemoryVariablesStore({"local": {"x": "many", "n": 3}}))
    result = ENGINE.evaluate("{{.x > 3}} {{.x -= few}}{{.n <= few}}", environment, Overrides())
    assert result.text == "false false"
    assert [(each.kind, each.about, each.position) for each in result.diagnostics] == [
        ("runtime_warning", "shorthand", 0),
        ("runtime_warning", "shorthand", 11),
        ("runtime_warning", "shorthand", 24),
    ]
    assert [each.message for each in result.diagnostics] == [
        "{{.x > 3}}: > needs numbers, not 'many'",
        "{{.x -= few}}: -= needs numbers, not 'few'",
        "{{.n <= few}}: <= needs numbers, not 'few'",
    ]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("{{.x == {{.x = 9}}9}}", "false"),
        ("{{.x == {{.x = 9}}5}}", "true"),
        ("{{.x != {{.x = 9}}5}}", "false"),
        ("{{.x < {{setvar::x::1}}3}}", "false"),
        ("{{.x || {{.x = 9}}y}}", "5"),
    ],
)
def test_a_comparison_reads_the_variable_before_its_operand_changes_it(text: str, written: str) -> None:
    assert ENGINE.expand(text, MacroEnvironment(variables=store(x=5))) == written


def test_adding_reads_the_variable_after_its_operand_changed_it() -> None:
    values = store(x=5)
    ENGINE.expand("{{.x += {{.x = 9}}1}}", MacroEnvironment(variables=values))
    assert values.get("x") == 10


@pytest.mark.parametrize("text", ["{{.nope ?? y}}", "{{hasvar::nope}}"])
def test_asking_with_a_default_leaves_no_empty_store(text: str) -> None:
    metadata: dict[str, Json] = {}
    ENGINE.expand(text, MacroEnvironment(variables=ChatVariables(metadata, {})))
    assert metadata == {}


def test_text_behind_a_macro_that_borrows_its_braces_is_lost() -> None:
    values = store(a="A")
    environment = MacroEnvironment(user_name="Mira", variables=values)
    assert ENGINE.expand("{{.s = {{.a {{user}} b}}}}", environment) == "}}"
    assert values.get("s") == "AMira"


def test_recovery_drops_exactly_one_token() -> None:
    environment = MacroEnvironment(variables=store(a="A", n=1))
    text = "{{x {{.a/f}} {{.n && 3}}"
    assert ENGINE.expand(text, environment) == text
    assert ENGINE.expand("{{x {{.a/f}} {{.n &}}", environment) == "{{x {{.a/f}} 1"
    assert ENGINE.expand("{{x {{.a/f}} {{.n \U0001f600}}", environment) == "{{x {{.a/f}} {{.n \U0001f600}}"


def test_macros_that_come_out_of_values_are_errors_in_strict_mode() -> None:
    environment = MacroEnvironment(user_name="Mira", variables=store(x="{{user}} and {{char}}", name="{{name}}"))
    assert ENGINE.expand("{{.x}}", environment) == "{{user}} and {{char}}"
    with pytest.raises(UnconsumedMacroError, match="came out of a macro") as caught:
        ENGINE.expand("{{.x}}", environment, strict=True)
    assert caught.value.remaining_macros == ("{{user}}", "{{char}}")
    assert ENGINE.expand(r"\{\{user\}\}", environment, strict=True) == "{{user}}"
    assert ENGINE.expand("{{.name}}", environment, strict=True, leave=("name",)) == "{{name}}"
