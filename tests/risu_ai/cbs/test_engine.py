"""The engine as an application uses it: results, warnings, strict mode, limits, caches."""

from __future__ import annotations

import threading

import pytest

from tavernkit.errors import ConfigError
from tavernkit.risu_ai._cbs import CBSCall, CBSEngine, CBSRegistry, FunctionFailure, FunctionGroup, standard_registry
from tavernkit.risu_ai._cbs import engine as engine_module
from tavernkit.risu_ai._cbs import run as run_module
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.engine import ProgramCache
from tavernkit.risu_ai._cbs.scanner import LevelKind
from tavernkit.risu_ai._objects import RisuCharacter
from tavernkit.risu_ai.errors import CBSError, CBSLimitError, CBSStackOverflowError, CBSSyntaxError
from tavernkit.stores._variables import InMemoryVariablesStore

ENGINE = CBSEngine()


def context(**variables: str) -> CBSContext:
    return CBSContext(char="Bel", user="Ann", variables=InMemoryVariablesStore({"local": variables}), writes="run")


def expand(text: str, where: CBSContext | None = None) -> tuple[str, list[str]]:
    warnings: list[str] = []
    return ENGINE.expand(text, where or context(), warn=warnings.append), warnings


def test_names_are_enough_to_start_with() -> None:
    assert ENGINE.expand("{{char}} meets <user>.", CBSContext(char="Bel", user="Ann")) == "Bel meets Ann."


def test_halves_of_a_character_that_a_function_brings_together_are_one() -> None:
    assert expand("{{join::{{split::😀::}}::}}") == ("😀", [])
    assert expand("{{join::{{split::{{getvar::face}}::}}::}}", context(face="😀")) == ("😀", [])


@pytest.mark.parametrize("items", ["Q", "{{getvar::list}}"])
def test_the_end_of_a_nested_each_and_the_text_after_the_outer_one_can_open_a_tag(items: str) -> None:
    text = f"{{{{#each {items} v}}}}{{{{#each {{ w}}}}{{{{slot::w}}}}{{{{/each}}}}{{{{/each}}}}{{user}}}}"
    assert expand(text, context(list="Q")) == ("Ann", [])


def test_variables_are_written_to_the_store_of_the_application() -> None:
    where = context(gold="3")
    assert expand("{{addvar::gold::4}}{{getvar::gold}}", where) == ("7", [])
    assert where.variables.get("gold") == "7"


def test_writes_are_kept_as_text_unless_the_pass_carries_them_out() -> None:
    where = context()
    assert expand("{{setvar::a::1}}", where.replace(writes="keep")) == ("{{setvar::a::1}}", [])
    assert expand("x{{setvar::a::1}}", where.replace(writes="remove")) == ("x", [])
    assert not where.variables.has("a")


def test_an_unknown_name_is_kept_and_reported_once_with_its_position() -> None:
    result, warnings = expand("<user> {{nope::1}} {{nope::1}}")
    assert result == "Ann {{nope::1}} {{nope::1}}"
    assert warnings == [
        "{{nope::1}} is kept as text: there is no function 'nope' (at 7)",
        "{{nope::1}} is kept as text: there is no function 'nope' (at 19)",
    ]


def test_many_warnings_end_with_one_that_says_so() -> None:
    warnings = expand("{{nope}}" * 500)[1]
    assert len(warnings) == 101
    assert warnings[-1] == "further warnings about this text are left out"


def test_a_function_that_fails_says_why() -> None:
    result, warnings = expand("{{upper}}")
    assert result == "{{upper}}"
    assert warnings == ["{{upper}} is kept as text: argument 1 is missing (at 0)"]


@pytest.mark.parametrize(
    "text", ["{{// a note}}", "{{asset::room}}", "{{slot}}", "{{position::x}}", "{{video-img::x}}"]
)
def test_comments_and_tags_of_other_stages_are_kept_in_silence(text: str) -> None:
    assert expand(text) == (text, [])


def test_a_tag_that_opens_no_block_is_reported() -> None:
    result, warnings = expand("{{#loop}}a")
    assert result == "{{#loop}}a"
    assert warnings == ["{{#loop}} is kept as text: no block opens like this (at 0)"]


def test_a_closer_without_a_block_is_reported() -> None:
    assert expand("a{{/if}}")[1] == ["{{/if}} is kept as text: it closes a block, but none is open (at 1)"]


def test_positions_inside_an_inserted_text_are_behind_the_each_that_made_it() -> None:
    text = '{{#each ["a","b"] v}}{{nope::{{slot::v}}}}{{/each}}!'
    behind = text.index("!")
    assert expand(text)[1] == [
        f"{{{{nope::a}}}} is kept as text: there is no function 'nope' (at {behind})",
        f"{{{{nope::b}}}} is kept as text: there is no function 'nope' (at {behind})",
    ]


def test_positions_inside_a_field_are_those_of_the_tag_that_asks_for_it() -> None:
    where = context().replace(char=RisuCharacter(name="Bel", description="longer than that {{nope}}"))
    assert expand("ab{{description}}", where)[1] == ["{{nope}} is kept as text: there is no function 'nope' (at 2)"]


def test_an_unclosed_block_loses_its_opener_as_in_risuai_and_is_reported() -> None:
    result, warnings = expand("a {{#when::1}}b {{user}}")
    assert result == "a <b Ann"
    assert warnings == ["the block #when::1 is not closed (at 2)"]


def test_a_text_that_makes_risuai_throw_comes_back_as_it_was() -> None:
    where = context()
    text = '{{setvar::a::1}}{{element::{"n":5}::n}}'
    result, warnings = expand(text, where)
    assert result == text
    assert len(warnings) == 1
    assert where.variables.get("a") == "1"


class TestStrictMode:
    def fails(self, text: str, kind: type[CBSError], where: CBSContext | None = None) -> CBSError:
        with pytest.raises(kind) as caught:
            ENGINE.expand(text, where or context(), strict=True)
        return caught.value

    def test_unclosed_block(self) -> None:
        error = self.fails("<char> {{#if 1}}a", CBSSyntaxError)
        assert (error.position, error.block_type) == (7, "#if 1")

    def test_unclosed_tag(self) -> None:
        error = self.fails("ab {{user", CBSSyntaxError)
        assert (error.position, error.block_type) == (3, None)

    def test_unknown_name(self) -> None:
        assert self.fails("ab{{nope}}", CBSError).position == 2

    def test_call_limit(self) -> None:
        text = "{{#func f}}x{{/func}}" + "{{call::f}}" * 20
        error = self.fails(text, CBSStackOverflowError)
        assert isinstance(error, CBSStackOverflowError)
        assert (error.depth, error.max_depth, error.position) == (21, 20, len(text) - 11)

    def test_broken_parse(self) -> None:
        self.fails('{{element::{"n":5}::n}}', CBSError)

    def test_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_module, "MAX_STEPS", 5000)
        error = self.fails("{{#each {{getvar::x}} v}}{{slot::v}}{{/each}}", CBSLimitError, endless())
        assert isinstance(error, CBSLimitError)
        assert error.limit == "MAX_STEPS"

    def test_a_correct_text_is_expanded(self) -> None:
        assert ENGINE.expand("{{#when::1}}{{user}}{{:else}}b{{/when}}", context(), strict=True) == "Ann"


def endless() -> CBSContext:
    return context(x="{{#each {{getvar::x}} v}}{{slot::v}}{{/each}}")


class TestLimits:
    def test_the_twentieth_call_prints_risuais_error(self) -> None:
        result, warnings = expand("{{#func f}}x{{/func}}" + "{{call::f}}" * 21)
        assert result == "x" * 19 + "ERROR: Call stack limit reached" * 2
        assert len(warnings) == 1

    @pytest.mark.parametrize(
        "text",
        [
            "{{#each {{getvar::x}} v}}{{slot::v}}{{/each}}",
            "{{setvar::a::0123456789}}" + "{{setvar::a::{{getvar::a}}{{getvar::a}}}}" * 40 + "{{getvar::a}}",
            "{{#each {{range::[90000]}} v}}{{dice::90000d6}}{{/each}}",
            "{{#each {{range::[90000]}} v}}{{hash::{{getvar::long}}{{slot::v}}}}{{/each}}",
            "{{replace::{{range::[90000]}}::::{{range::[90000]}}}}",
            "{{description}}",
        ],
    )
    def test_no_text_goes_on_forever(self, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_module, "MAX_STEPS", 20_000)
        where = context(x="{{#each {{getvar::x}} v}}{{slot::v}}{{/each}}", long="y" * 1000, call="call::f")
        where = where.replace(char=RisuCharacter(name="Bel", description="{{description}}{{description}}"))
        result, warnings = expand(text, where)
        assert result == text
        assert warnings[-1].startswith("the text is kept as it was")

    @pytest.mark.parametrize(
        "tag",
        [
            "range::[0,1,0]",
            "range::[5,6,-1]",
            "dice::1e9d6",
            "roll::Infinityd6",
            "rollp::1e9d6",
            "arrayassert::[]::4000000000::x",
            "objectassert::[]::length::4000000000",
            "cbr::1e9",
        ],
    )
    def test_absurd_sizes_fail(self, tag: str) -> None:
        result, warnings = expand(f"{{{{{tag}}}}}")
        assert result == f"{{{{{tag}}}}}"
        assert len(warnings) == 1

    def test_deep_nesting_needs_no_stack(self) -> None:
        deep = 5000
        assert expand("{{" * deep + "}}" * deep)[0].startswith("{{{{")
        assert expand("{{#if 1}}" * 400 + "x" + "{{/if}}" * 400)[0] == "x"

    def test_deep_json_does_no_harm(self) -> None:
        deep = "[" * 5000 + "]" * 5000
        assert expand(f"{{{{arraylength::{deep}}}}}")[0] == "1"
        assert expand("{{arrayelement::" + "[" * 450 + "]" * 450 + "::0}}")[1]


class TestCompiling:
    def test_repeated_texts_are_compiled_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        compiled: list[str] = []
        original = engine_module.Compiler.compile

        def counting(self: engine_module.Compiler) -> engine_module.Program:
            program = original(self)
            compiled.append(program.source)
            return program

        monkeypatch.setattr(engine_module.Compiler, "compile", counting)
        engine = CBSEngine()
        for hp in range(5):
            engine.expand("{{#when::{{getvar::hp}}::>::2}}alive{{/when}}", context(hp=str(hp)))
        assert len(compiled) == 1

    def test_the_cache_forgets_what_was_not_used_for_longest(self) -> None:
        engine = CBSEngine()
        cache = ProgramCache[str](2500)
        program = engine.compile_insert("{{user}}", LevelKind.ROOT)
        assert program is not None
        for name in ("a", "b"):
            cache.put(name, program)
        assert cache.get("a") is program
        cache.put("c", program)
        assert (cache.get("b"), len(cache)) == (None, 2)

    def test_pieces_of_plain_text_weigh_too(self) -> None:
        program = CBSEngine().compile_insert("{{user}}" + "#}" * 100, LevelKind.ROOT)
        assert program is not None
        cache = ProgramCache[str](2500)
        cache.put("a", program)
        assert len(cache) == 0

    def test_a_program_heavier_than_the_cache_is_not_kept(self) -> None:
        program = CBSEngine().compile_insert("{{user}}" * 100, LevelKind.ROOT)
        assert program is not None
        cache = ProgramCache[str](2000)
        cache.put("a", program)
        assert len(cache) == 0

    def test_what_depends_on_nothing_is_computed_ahead(self) -> None:
        text = '{{upper::{{? 1+2}}x}}{{#each ["a","b"] v}}{{slot::v}}.{{/each}}'
        assert CBSEngine().constant(text) == "3Xa.b."

    def test_the_tree_continues_after_a_false_if(self) -> None:
        text = "{{#if {{getvar::on}}}}{{#when::1}}in{{/when}}{{/if}}out"
        assert [expand(text, context(on=on))[0] for on in ("1", "0")] == ["inout", "out"]

    def test_one_engine_serves_many_threads(self) -> None:
        engine = CBSEngine()
        each = "{{#each {{getvar::list}} v}}{{upper::{{slot::v}}}}{{/each}}"
        text = each + "{{#when::{{getvar::n}}::>::5}}a{{:else}}b{{/when}}"
        results: dict[int, set[str]] = {}

        def work(number: int) -> None:
            where = context(list=f'["x{number}","y"]', n=str(number))
            results[number] = {engine.expand(text, where) for _ in range(50)}

        threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {number: {f"X{number}Y{'a' if number > 5 else 'b'}"} for number in range(10)}


class TestRegistry:
    def test_an_application_adds_its_own_function(self) -> None:
        def weather(call: CBSCall) -> str:
            """The weather in a town."""
            return f"sunny in {call.text(0)}"

        engine = CBSEngine()
        assert engine.expand("{{weather::Rome}}", context(), warn=lambda _: None) == "{{weather::Rome}}"
        engine.registry.register("weather", weather, aliases=("sky",), args=("town",))
        assert engine.expand("{{weather::Rome}} {{S_K-Y::Bonn}}", context()) == "sunny in Rome sunny in Bonn"
        assert engine.registry.describe()["custom"][0].doc == "The weather in a town."

    def test_a_function_of_the_application_may_fail_or_keep_its_tag(self) -> None:
        group = FunctionGroup("mine")

        @group("fails")
        def fails(_: CBSCall) -> str:
            """Always fails."""
            raise FunctionFailure("on purpose")

        @group("keeps")
        def keeps(_: CBSCall) -> None:
            """Keeps its tag."""

        engine = CBSEngine(CBSRegistry(group))
        warnings: list[str] = []
        assert engine.expand("{{fails}}{{keeps}}", context(), warn=warnings.append) == "{{fails}}{{keeps}}"
        assert warnings == ["{{fails}} is kept as text: on purpose (at 0)"]

    def test_registries_do_not_share_what_is_added(self) -> None:
        first = standard_registry()
        first.copy().register("extra", lambda _: "x")
        assert not first.has("extra")

    def test_a_name_nobody_could_call_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="cannot be called"):
            standard_registry().register("_ -", lambda _: "x")

    def test_every_function_is_documented_and_found_by_all_its_names(self) -> None:
        registry = standard_registry()
        described = [function for functions in registry.describe().values() for function in functions]
        assert len(described) == len(registry) > 120
        for function in described:
            assert function.doc, function.name
            assert all(registry.get(name) is function for name in (function.name, *function.aliases)), function.name


@pytest.mark.parametrize(
    ("text", "kind", "position"),
    [
        ("a {{nosuch}}", "kept", 2),
        ("ab {{#if 1}}c", "unclosed", 3),
        ("ab {{user", "unclosed", 3),
    ],
)
def test_diagnostics_say_what_is_wrong_and_where(text: str, kind: str, position: int) -> None:
    result = ENGINE.evaluate(text, context())
    assert result.text == expand(text)[0]
    assert [(found.kind, found.position) for found in result.diagnostics] == [(kind, position)]
    assert [str(found) for found in result.diagnostics] == expand(text)[1]
