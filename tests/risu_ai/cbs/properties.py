"""What holds for every CBS text, whatever is in it."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import strategies as st

from tavernkit.risu_ai._cbs import CBSCall, CBSEngine, CBSFunction, FunctionFailure, standard_registry
from tavernkit.risu_ai._cbs.blocks import Block, close_block, expand_each, legacy_block, open_block
from tavernkit.risu_ai._cbs.calculator import calculate
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.limits import MAX_CHARACTERS
from tavernkit.risu_ai._cbs.media import MediaSettings, replace_assets
from tavernkit.risu_ai._cbs.nodes import Takeover
from tavernkit.risu_ai._cbs.run import Run
from tavernkit.risu_ai._cbs.scanner import evaluate
from tavernkit.risu_ai._cbs.source import CLOSE, LEGACY_CLOSE, OPENERS, joined, prepare
from tavernkit.risu_ai._objects import Asset, RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai.errors import CBSError, CBSLimitError
from tavernkit.stores._variables import InMemoryVariablesStore


class ScanningEngine(CBSEngine):
    """The same engine without trees: the scanner does it all, as RisuAI does."""

    def execute(self, run: Run) -> str:
        text = prepare(run.text)
        return self._scan(run, [], Takeover(text), len(text))


class NaiveEngine(CBSEngine):
    """RisuAI's scanner read as simply as possible: character by character, inserted text becomes part of the source."""

    def execute(self, run: Run) -> str:
        source = prepare(run.text)
        levels: list[tuple[str, Block | None]] = [("root", None)]
        texts = [""]
        while source:
            pair, in_tag = source[:2], levels[-1][0] == "tag"
            if pair in OPENERS:
                levels.append(("tag", None))
                texts.append("")
                source = source[2:]
            elif in_tag and pair in (CLOSE, LEGACY_CLOSE):
                source = source[2:]
                levels.pop()
                content = joined([texts.pop()])
                if pair == CLOSE:
                    source = self._close(run, content, levels, texts) + source
                else:
                    result = legacy_block(content)
                    texts[-1] += f"{{#{content}#}}" if result is None else result
            else:
                texts[-1] += source[0]
                source = source[1:]
        openers: dict[str, str] = {"root": "", "tag": "{{"}
        return joined([openers.get(kind, "<") + text for (kind, _), text in zip(levels, texts, strict=True)])

    def _close(self, run: Run, tag: str, levels: list[tuple[str, Block | None]], texts: list[str]) -> str:
        """Close a tag, and return what is inserted into the source after it."""
        run.session.step(1)
        pure = any(block is not None and block.pure for _, block in levels)
        kind, block = levels[-1]
        if tag.startswith(("#", ":")):
            opened = None if pure else open_block(tag, run.context)
            if opened is None:
                texts[-1] += "{{" + tag + "}}"
            if pure or opened is not None:
                levels.append(("raw" if pure else "block", opened))
                texts.append("")
        elif tag.startswith("/") and not tag.startswith("//") and kind in ("block", "raw"):
            levels.pop()
            body = joined([texts.pop()])
            if block is None:
                texts[-1] += body + "{{" + tag + "}}"
            elif block.kind == "each":
                inserted = expand_each(block, body)
                run.session.produce(len(inserted))
                return inserted
            elif block.kind == "function":
                run.define(block, body)
            else:
                texts[-1] += close_block(block, body)
        else:
            result = run.call(tag, 0) if tag.startswith("call::") else None
            if result is None and pure:
                result = "{{" + tag + "}}"
            if result is None:
                buffer = [texts[-1]]
                result = evaluate(run, tag, buffer, 0)
                texts[-1] = "".join(buffer)
            texts[-1] += result
        return ""


ENGINE = CBSEngine()
SCANNER = ScanningEngine()
NAIVE = NaiveEngine()

TOKENS = (
    *("{{", "}}", "{", "}", "#", "{#", "#}", ":", "::", " ", "\n", "a", "b c. ", "1", "0", "😀", "$&", "§", "\\"),
    *("<user>", "<BOT>", "{{user}}", "{{char}}", "{{unknown}}", "{{// note}}", "{{asset::x}}", "{{:else}}"),
    *("\n{{:else}}\n", "{{/}}", "{{/if}}", "{{/each}}", "{{/x{{user}}}}", "{{/", "{{ /if}}", "{{#nope}}"),
    *("{{#if 1}}", "{{#if 0}}", "{{#if {{getvar::yes}}}}", "{{#if {{getvar::no}}}}", "{{#if_pure {{getvar::yes}}}}"),
    *("{{#when::1}}", "{{#when 0}}", "{{#when::{{getvar::n}}::>::3}}", "{{#when::keep::{{getvar::no}}}}"),
    *("{{#when::legacy::{{getvar::no}}}}", "{{#when::legacy::{{getvar::yes}}}}", "{{#when::yes::vis::1}}"),
    *("{{#when::{{getvar::call}}}}", "{{#when", "{{#each {{getvar::list}} as v}}", "{{#each a§b v}}", "{{#each"),
    *(
        '{{#each::keep ["x","{{user}}"] as v}}',
        "{{#each {{getvar::odd}} v}}",
        "{{#each { v}}{{slot::v}}{{/}}",
        "{{slot::v}}",
        "{{slot::v}}}}",
    ),
    *("{{#pure}}", "{{#puredisplay}}", "{{#escape}}", "{{#code}}", "{{#func f}}", "{{#func {{getvar::yes}} x}}"),
    *("{{call::f}}", "{{call::f::a::{{user}}}}", "{{call::1}}", "{{call::", "{{ca{{lower::LL}}::f}}", "{{arg::1}}"),
    *(
        "{{upper::",
        "{{upper::a b}}",
        "{{equal::",
        "{{bkspc}}",
        "{{erase}}",
        "{{bk{{lower::SPC}}}}",
        "{{bkspc::{{user}}}}",
    ),
    *("{{? 1+2}}", "{{? {{getvar::n}}*2}}", "{{?", "{{getvar::k}}", "{{getvar:", "{{{{getvar::call}}}}"),
    *("{{{{getvar::opener}}}}", "{{{{getvar::closer}}}}", "{{#{{lower::IF}} 1}}", "{#if 1\n", "{#if {{getvar::no}}\n"),
    *("{{setvar::k::{{getvar::k}}a}}", "{{settempvar::t::1}}", "{{tempvar::t}}", "{{return::R}}", "{{random::a::b}}"),
    *("{{description}}", "{{history}}", '{{element::{"a":5}::a}}', "{{u::d83d}}", "{{u::de00}}", "{{fixnum::1::200}}"),
)
VARIABLES = {
    "yes": "1",
    "no": "0",
    "n": "4",
    "call": "call::f",
    "opener": "#if 1",
    "closer": "/if",
    "list": '["p","q{{upper::z}}","}}","{{/if}}","{{bkspc}}","$&"]',
    "odd": "{§#each a v}}§{{#if 1}}§d",
}

soups = st.lists(st.sampled_from(TOKENS), max_size=25).map("".join)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    openers = [token for token in TOKENS if token.startswith("{{#") and token.endswith("}}")]
    heads = ["upper::", "equal::a::", "? 1+", "getvar::", "call::f::", "#if ", "#when::", "#each ", "", "c", "#", "/"]
    bodies = st.lists(inner, max_size=3).map("".join)
    elses = st.sampled_from(["", "", "{{:else}}other", "\n{{:else}}\nother"])
    closers = st.sampled_from(["{{/}}", "{{/when}}", "{{/x{{user}}}}"])
    blocks = st.tuples(st.sampled_from(openers), bodies, elses, closers).map("".join)
    tags = st.tuples(st.just("{{"), st.sampled_from(heads), bodies, st.sampled_from(["}}", "::b}}", " v}}"])).map(
        "".join
    )
    return blocks | tags | bodies


trees = st.recursive(st.sampled_from(TOKENS), _nested, max_leaves=12)
programs = soups | trees
any_texts = (
    st.text(max_size=80) | programs | st.tuples(st.text(max_size=20), programs, st.text(max_size=20)).map("".join)
)
plain_texts = st.text(st.characters(exclude_characters="{<", exclude_categories=["Cs"]), max_size=200)
expressions = st.text(st.sampled_from("0123456789.-+*/^%<>|&=! ()eE$@nulxaInfity≤≥≠,"), max_size=40)
arguments = st.lists(
    st.text(max_size=12)
    | st.sampled_from(
        ["", "1", "-3", "2.5", "1e400", "NaN", "[1,2,3]", '["a","","a"]', '{"a":1}', "null", "3d6", "😀x"]
    ),
    max_size=5,
)
functions = st.sampled_from([function for function in standard_registry() if function.pure])


def make_context() -> CBSContext:
    """A context in which every function has something to answer."""
    character = RisuCharacter(
        name="Bob", id="c", description="D{{user}}{{call::f}}", assets=(Asset("room", "p", "png"),)
    )
    chat = RisuChat(id="h", messages=(RisuMessage(role="user", data="u {{char}}"), RisuMessage(role="char", data="c")))
    return CBSContext(
        char=character,
        user="Ann",
        chat=chat,
        variables=InMemoryVariablesStore({"local": VARIABLES}),
        clock=lambda: datetime(2024, 3, 7, tzinfo=UTC),
        writes="run",
    )


def outcome(engine: CBSEngine, text: str, *, strict: bool) -> tuple[object, ...]:
    """Everything an expansion does: its result or error, the variables, the warnings, the dice it drew."""
    context = make_context()
    warnings: list[str] = []
    try:
        result: object = engine.expand(text, context, warn=warnings.append, strict=strict)
    except CBSLimitError as error:
        result = error.limit
    except CBSError as error:
        result = (type(error), str(error), error.position, error.block_type)
    variables = context.variables
    assert isinstance(variables, InMemoryVariablesStore)
    return result, variables.to_dict(), warnings, context.random()


def check_tree_equals_scanner(text: str, strict: bool) -> None:
    assert outcome(ENGINE, text, strict=strict) == outcome(SCANNER, text, strict=strict)


def check_tree_equals_naive_reading(text: str) -> None:
    warnings: list[str] = []
    found = ENGINE.expand(text, make_context(), warn=warnings.append)
    limited = any("steps" in warning or "characters" in warning for warning in warnings)
    if not limited:  # the naive engine counts its work differently
        assert found == NAIVE.expand(text, make_context(), warn=lambda _: None)


def check_never_raises(text: str) -> None:
    result = ENGINE.expand(text, make_context(), warn=lambda _: None)
    assert len(result) <= MAX_CHARACTERS + len(text)


def check_plain_text_is_unchanged(text: str) -> None:
    warnings: list[str] = []
    assert ENGINE.expand(text, make_context(), warn=warnings.append) == text
    assert not warnings


def check_deterministic(text: str) -> None:
    assert outcome(ENGINE, text, strict=False) == outcome(ENGINE, text, strict=False)


def check_strict_agrees_or_raises(text: str) -> None:
    """Strict mode gives the same text as normal mode without warnings, and raises a CBS error otherwise."""
    warnings: list[str] = []
    normal = ENGINE.expand(text, make_context(), warn=warnings.append)
    if warnings:
        with pytest.raises(CBSError) as caught:
            ENGINE.expand(text, make_context(), strict=True)
        assert caught.value.position is None or 0 <= caught.value.position <= len(text)
    else:
        assert ENGINE.expand(text, make_context(), strict=True) == normal


def check_calculator_gives_numbers(expression: str) -> None:
    try:
        result = calculate(expression, make_context())
    except FunctionFailure:
        return
    assert result in {"NaN", "Infinity", "-Infinity"} or math.isfinite(float(result))


def check_pure_functions_need_only_arguments(function: CBSFunction, args: list[str]) -> None:
    """A function that is called pure answers or fails without knowing its surroundings, twice the same."""
    answers: list[object] = []
    for _ in range(2):
        try:
            answers.append(function.handler(CBSCall("tag", list(args), None, ["some text. and more"], 0)))
        except FunctionFailure as failure:
            answers.append(str(failure))
    assert answers[0] == answers[1]


def check_media_never_raise(text: str) -> None:
    settings = MediaSettings(width=3, max_difference=100)
    replace_assets(text.replace("{{upper", "{{raw"), make_context(), lambda path: path, settings=settings)
