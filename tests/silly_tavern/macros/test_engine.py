"""What callers of the Macros 2.0 engine rely on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tavernkit.cards import Character
from tavernkit.errors import MacroError, StrictModeError, WarningLog
from tavernkit.silly_tavern._macros import (
    MacroArgument,
    MacroCall,
    MacroDefinition,
    MacroEngine,
    MacroEnvironment,
    MacroRegistry,
    Overrides,
    Processor,
    default_registry,
    source,
)
from tavernkit.silly_tavern._macros import parser as macro_parser
from tavernkit.silly_tavern._macros.document import Document
from tavernkit.silly_tavern._macros.run import Run
from tavernkit.silly_tavern.errors import MacroBlockError, MacroRecursionError, MacroSyntaxError, UnknownMacroError

ENGINE = MacroEngine()
ANN = MacroEnvironment(user_name="Ann", character_name="Bel")


def test_environments_keep_variables_of_their_own() -> None:
    environment = ANN.replace(variables=MacroEnvironment().variables)
    environment.set_var("mood", "glad")
    assert environment.has_var("mood")
    assert ENGINE.expand("{{getvar::mood}}", ANN.replace(variables=MacroEnvironment().variables)) == ""
    assert environment.get_var("mood") == "glad"


def test_plain_text_is_given_back_as_the_same_object() -> None:
    text = "no macros { at all } here <b>" * 3
    assert ENGINE.expand(text, ANN) is text


def test_original_works_once_and_is_kept_when_nothing_was_replaced() -> None:
    warnings: list[str] = []
    assert ENGINE.expand("[{{original}}][{{original}}]", ANN, original="Main") == "[Main][]"
    assert ENGINE.expand("[{{original}}]", ANN, warn=warnings.append) == "[{{original}}]"
    assert "original" in warnings[0]


def test_macros_of_a_call_win_over_registered_ones() -> None:
    macros = {
        "User": "somebody",
        "Twice": MacroDefinition(name="twice", args=[MacroArgument("text")], handler=lambda call: call.args[0] * 2),
        "now": lambda _call: "today",
    }
    assert ENGINE.expand("{{user}} {{twice::ab}} {{NOW}} {{char}}", ANN, macros=macros) == "somebody abab today Bel"
    assert ENGINE.expand("{{user}}", ANN) == "Ann"


def test_names_of_a_call_stand_in_for_the_environments() -> None:
    text = "{{user}} {{char}} {{group}} {{description}}"
    environment = ANN.replace(character=Character(name="", description="of {{char}}"))
    expanded = ENGINE.expand(text, environment, user_name="U", character_name="C", group="X, Y")
    assert expanded == "U C X, Y of Bel"


def test_a_macro_that_the_caller_replaces_itself_stays_without_a_warning() -> None:
    warnings: list[str] = []
    assert ENGINE.expand("{{name}}: {{user}}", ANN, leave=("name",), warn=warnings.append) == "{{name}}: Ann"
    assert warnings == []


def test_post_process_changes_what_macros_give_and_nothing_else() -> None:
    assert ENGINE.expand("a {{user}} {{.none}}b", ANN, post_process=str.upper) == "a ANN b"


def test_without_the_card_its_macros_are_empty() -> None:
    environment = ANN.replace(character=Character(name="", description="tall"), persona="me")
    assert ENGINE.expand("[{{description}}{{persona}}]", environment, card=False) == "[]"


def test_slot_and_outlet_give_the_same_outlet() -> None:
    environment = ANN.replace(outlets={"lore": "old pier"})
    assert ENGINE.expand("{{slot::lore}}|{{outlet::lore}}", environment) == "old pier|old pier"


def test_an_unknown_macro_stays_and_is_reported_with_its_position() -> None:
    result = ENGINE.evaluate("<USER> and {{nosuch::{{user}}}}", ANN)
    assert result.text == "Ann and {{nosuch::Ann}}"
    (diagnostic,) = result.diagnostics
    assert (diagnostic.kind, diagnostic.macro, diagnostic.position) == ("unknown_macro", "nosuch", 11)
    assert str(diagnostic) == "unknown macro {{nosuch}} stays as text (at character 11)"


def test_positions_hold_inside_blocks_arguments_and_malformed_text() -> None:
    for text in (
        "ab{{if 1}}c{{nosuch}}{{/if}}",
        "ab{{reverse::c {{nosuch}}}}",
        "{{}}{{reverse::{{user!}} {{nosuch}}}}",
    ):
        found = [each for each in ENGINE.evaluate(text, ANN).diagnostics if each.kind == "unknown_macro"]
        assert [each.position for each in found] == [text.index("{{nosuch")]


@pytest.mark.parametrize(
    ("text", "error", "macro", "position"),
    [
        ("a {{nosuch}}", UnknownMacroError, "nosuch", 2),
        ("a {{user", MacroSyntaxError, None, 8),
        ("a {{user::1}}", MacroError, "user", 2),
        ("a {{/if}}", MacroBlockError, "if", 2),
        ("a {{if 1}}b", MacroBlockError, "if", 2),
        ("a {{user}}b{{/user}}", MacroBlockError, "user", 2),
        ("a {{roll::x}}", MacroError, "roll", 2),
        ("a {{setvar::::x}}", MacroError, "setvar", 2),
        ("a {{.n > x}}", MacroError, "unknown", 2),
    ],
)
def test_strict_mode_raises_the_error_of_its_kind(
    text: str, error: type[MacroError], macro: str, position: int
) -> None:
    with pytest.raises(error) as raised:
        ENGINE.expand(text, ANN, strict=True)
    assert raised.value.macro_name == macro
    assert raised.value.position == position


def test_block_errors_name_the_tag_that_is_missing() -> None:
    with pytest.raises(MacroBlockError) as raised:
        ENGINE.expand("{{if 1}}b", ANN, strict=True)
    assert (raised.value.opening_tag, raised.value.expected_closing) == ("if", "{{/if}}")


def test_a_strict_warning_log_stops_the_expansion_even_from_inside_a_handler() -> None:
    registry = default_registry()
    registry.register("inner", lambda call: call.resolve("{{nosuch}}"))
    with pytest.raises(StrictModeError):
        MacroEngine(registry).expand("{{inner}}", ANN, warn=WarningLog(strict=True))


def test_a_handler_that_fails_leaves_its_text() -> None:
    registry = default_registry()
    registry.register("broken", lambda _call: 1 // 0)
    warnings: list[str] = []
    assert MacroEngine(registry).expand("a {{broken}} b", ANN, warn=warnings.append) == "a {{broken}} b"
    assert "division" in warnings[0]


def test_a_text_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str) -> macro_parser.ParsedText:
        parsed.append(text)
        return macro_parser.parse(text)

    monkeypatch.setattr(source, "parse", parse)
    engine = MacroEngine()
    for _ in range(3):
        assert engine.expand("{{if 1}}{{reverse::{{user}}}}{{/if}}", ANN) == "nnA"
    assert parsed == ["{{if 1}}{{reverse::{{user}}}}{{/if}}"]


def test_a_macro_registered_later_is_seen_by_texts_that_were_expanded_before() -> None:
    engine = MacroEngine(default_registry())
    assert engine.expand("{{shout}}", ANN, warn=lambda _message: None) == "{{shout}}"
    engine.registry.register("shout", lambda _call: "HEY")
    assert engine.expand("{{shout}}", ANN) == "HEY"


def test_processors_of_ones_own_run_in_the_order_of_their_priorities() -> None:
    engine = MacroEngine(
        pre_processors=[Processor(lambda text, environment: text.replace("%me%", "<USER>"), priority=15)],
        post_processors=[
            Processor(lambda text, environment: f"{text}|{environment.character_name}"),
            Processor(lambda text, environment: text.replace("\\{", "(") + "!", priority=5),
        ],
    )
    assert engine.expand("%me% \\{ {{if 1}}%me%{{/if}}", ANN) == "Ann ( Ann!|Bel!|Bel"
    assert engine.expand("plain", ANN) == "plain!|Bel"


def test_a_handler_sees_its_call() -> None:
    registry = MacroRegistry()

    def show(call: MacroCall) -> str:
        return f"{call.name} {call.flags} {call.scoped} {call.raw} {call.offset} {list(call.args)}"

    registry.register(
        "show", show, args=[MacroArgument("a", optional=True), MacroArgument("b", optional=True)], aliases=["look"]
    )
    engine = MacroEngine(registry)
    assert engine.expand("🦊{{!#look::1}} x {{/LOOK}}", ANN) == "🦊look !# True !#look::1}} x  2 ['1', ' x ']"


def test_a_call_knows_its_place_after_another_expanded_a_text() -> None:
    registry = default_registry()
    offsets: list[int] = []
    registry.register("at", lambda call: offsets.append(call.offset) or "")
    registry.register("inner", lambda call: call.resolve("ab{{at}}"))
    MacroEngine(registry).expand("x{{inner}}{{at}}", ANN)
    assert offsets == [3, 10]


def test_a_delayed_macro_gets_its_arguments_as_written() -> None:
    registry = default_registry()
    registry.register(
        "quote", lambda call: f"{call.args[0]} = {call.resolve(call.args[0])}", args=[MacroArgument("a")], delayed=True
    )
    assert MacroEngine(registry).expand("{{quote::{{user}}}}", ANN) == "{{user}} = Ann"


def test_an_engine_can_be_shared_between_threads() -> None:
    engine = MacroEngine()
    text = "{{if {{.n}}}}{{user}} {{else}}nobody {{/if}}{{reverse::{{char}}}}" * 5

    def expand(index: int) -> str:
        environment = MacroEnvironment(user_name=f"U{index}", character_name="ab")
        environment.set_var("n", index)
        return engine.expand(text, environment)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(expand, range(40)))
    assert results == ["nobodyba" * 5 if index == 0 else f"U{index}ba" * 5 for index in range(40)]


def test_texts_of_a_card_are_trimmed_and_expanded_on_their_own() -> None:
    card = Character(name="", description=" {{char}} is tall. ", first_mes="Hi {{user}}")
    text = "{{description}}|{{greeting}}|{{greeting::1}}"
    assert ENGINE.expand(text, ANN.replace(character=card)) == "Bel is tall.|Hi Ann|"


def test_the_diagnostics_of_a_card_field_say_where_it_is() -> None:
    environment = ANN.replace(character=Character(name="", description="{{nosuch}}"))
    (diagnostic,) = ENGINE.evaluate("{{description}}", environment, Overrides()).diagnostics
    assert diagnostic.message == "unknown macro {{nosuch}} stays as text in the card's description"


def test_recursion_errors_carry_the_limit() -> None:
    registry = default_registry()
    registry.register("again", lambda call: call.resolve("{{again}}"))
    with pytest.raises(MacroRecursionError) as raised:
        MacroEngine(registry).expand("{{again}}", ANN, strict=True)
    assert raised.value.max_depth == raised.value.depth > 1


def test_the_text_of_a_large_card_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    whole = Document.whole
    monkeypatch.setattr(Document, "whole", lambda registry, text: (parsed.append(len(text)), whole(registry, text))[1])
    engine, text = MacroEngine(), "{{user}} and {{char}} " * 15_000
    for name in ("Ann", "Eve"):
        assert engine.expand(text, MacroEnvironment(user_name=name)).startswith(name)
    assert parsed == [len(text)]


def test_a_text_with_nothing_but_names_is_evaluated_once_for_each_pair_of_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, evaluated = MacroEngine(), list[str]()
    resolve = MacroEngine.resolve

    def noted(self: MacroEngine, text: str, run: Run) -> str:
        evaluated.append(text)
        return resolve(self, text, run)

    monkeypatch.setattr(MacroEngine, "resolve", noted)
    text = "{{user}} meets {{char}} and <BOT>."
    assert [engine.expand(text, ANN) for _ in range(3)] == ["Ann meets Bel and Bel."] * 3
    assert len(evaluated) == 1
    assert engine.expand(text, ANN.replace(user_name="Cid")) == "Cid meets Bel and Bel."
    assert engine.expand(text, ANN, character_name="Dee") == "Ann meets Dee and Dee."
    assert engine.expand(text, ANN, macros={"user": "Eve"}) == "Eve meets Bel and Bel."
    assert engine.expand(text, ANN) == "Ann meets Bel and Bel."
    assert len(evaluated) == 4


def test_a_text_with_other_macros_is_evaluated_each_time() -> None:
    environment = ANN.replace(variables=MacroEnvironment().variables)
    text = "{{user}} counts {{incvar::n}}"
    assert [ENGINE.expand(text, environment) for _ in range(3)] == [f"Ann counts {number}" for number in (1, 2, 3)]


def test_names_that_another_macro_gives_are_not_kept() -> None:
    registry = default_registry().copy()
    engine = MacroEngine(registry)
    assert engine.expand("{{user}}!", ANN) == "Ann!"
    registry.register("user", lambda _: "nobody")
    assert engine.expand("{{user}}!", ANN) == "nobody!"
