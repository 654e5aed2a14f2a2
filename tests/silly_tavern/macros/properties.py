"""What must hold for any text: used by the quick tests and by the fuzz runs."""

from __future__ import annotations

import contextlib
import random
import re
from datetime import UTC, datetime

from hypothesis import strategies as st

from tavernkit.cards import Character
from tavernkit.errors import MacroError
from tavernkit.silly_tavern._macros import (
    LegacyMacroEngine,
    MacroArgument,
    MacroCall,
    MacroEngine,
    MacroEnvironment,
    MacroListArgument,
    MacroRegistry,
    default_registry,
    legacy_passes,
)
from tavernkit.silly_tavern._macros.lexer import END, tokenize
from tavernkit.silly_tavern._macros.parser import ParsedMacro, ParsedText, parse
from tavernkit.stores import InMemoryVariablesStore
from tests.silly_tavern.macros.reference_engine import MACROS, Reference

PIECES = (
    *("{{", "}}", "{", "}", "::", ":", "/", "//", "///", "!", "#", "~", ">", ".", "$", "|", "=", '"', "\\{", "\\}"),
    *(" ", "\n", "  ", "\u00a0", "x", "y1", "0", "1", "a,b", "é", "🦊", "\x00\x1fELSE\x1f\x00"),
    *("++", "--", "+=", "-=", "==", "??", "||=", "<USER>", "<bot>", "<charIfNotGroup>"),
    *("if", "else", "user", "char", "reverse", "setvar", "getvar", "nosuch", "space", "roll", "1d6", "offset"),
    *("{{user}}", "{{if 1}}", "{{if !0}}", "{{if {{.x}}}}", "{{/if}}", "{{else}}", "{{reverse}}", "{{/reverse}}"),
    *("{{setvar::k}}", "{{/setvar}}", "{{getvar::k}}", "{{.x}}", "{{.x = ", "{{$y++}}", "{{trim}}", "{{// ", "{{///}}"),
    *("{{pick::a::b::c}}", "{{random::a::b}}", "{{description}}", "{{nosuch::", "{{setvarkey::k::1::v}}", "{{offset}}"),
    *(
        "{{time_UTC+2}}",
        "{{roll:",
        "{{setvar::a::b}}",
        '{{banned "',
        '"}}',
        "{{outlet::",
        "{{timeDiff::",
        "{{datetimeformat ",
    ),
)
texts = st.lists(st.sampled_from(PIECES), max_size=24).map("".join) | st.text(max_size=60)

_blocks = st.sampled_from(["if 1", "if 0", "if {{.x}}", "reverse", "setvar::k", "#if 1", "nosuch", "//"])
_leaves = st.sampled_from(
    [
        "text",
        " \n  a\n",
        "{{user}}",
        "{{.x++}}",
        "{{$y = 2}}",
        "{{offset}}",
        "{{pick::a::b::c::d}}",
        "{{else}}",
        "🦊",
        "{{getvar::k}}",
    ]
)


def _closing(opening: str) -> str:
    name = opening.lstrip("#").split("::")[0].split(" ")[0]
    return "///" if name == "//" else f"/{name}"


def _wrap(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    many = st.lists(inner, max_size=4).map("".join)
    return (
        st.builds(lambda opening, body: f"{{{{{opening}}}}}{body}{{{{{_closing(opening)}}}}}", _blocks, many)
        | many.map(lambda body: f"{{{{reverse::{body}}}}}")
        | many.map(lambda body: f"{{{{.x = {body}}}}}")
        | many.map(lambda body: f"{{{{if::1::{body}}}}}")
        | many
    )


well_formed = st.recursive(_leaves, _wrap, max_leaves=12)
"""Texts of nested macros that are mostly without errors."""

plain_texts = st.text(st.characters(exclude_characters="{}<>\\\x00"), max_size=200)


def _offset(call: MacroCall) -> str:
    return f"<@{call.offset}>"


REGISTRY = default_registry()
REGISTRY.register("offset", _offset)
ENGINE = MacroEngine(REGISTRY)
LEGACY = LegacyMacroEngine()


def environment() -> MacroEnvironment:
    """A new environment, the same each time."""
    return MacroEnvironment(
        user_name="Mira",
        character_name="Orin",
        character=Character(name="", description="{{char}} {{addvar::seen::1}}", mes_example="<START>\n{{user}}: hi"),
        chat_id="chat",
        variables=InMemoryVariablesStore({"local": {"x": 3}}),
        clock=lambda: datetime(2031, 3, 5, 14, 7, 9, tzinfo=UTC),
        random=random.Random(7).random,
    )


def check_never_raises_and_is_deterministic(text: str) -> None:
    """Any text expands, with either engine, to the same text each time."""
    for engine in (ENGINE, LEGACY):
        results: list[tuple[object, ...]] = []
        for _ in range(2):
            surroundings = environment()
            variables = surroundings.variables
            assert isinstance(variables, InMemoryVariablesStore)
            result = engine.evaluate(text, surroundings)
            results.append((result, variables.to_dict(), surroundings.memory))
            for diagnostic in result.diagnostics:
                assert diagnostic.position is None or 0 <= diagnostic.position <= len(text)
        assert results[0] == results[1]


def check_plain_text_is_unchanged(text: str) -> None:
    """A text without braces and markers comes back as it is."""
    for engine in (ENGINE, LEGACY):
        assert engine.expand(text, environment()) == text


def check_strict_mode_raises_only_macro_errors(text: str) -> None:
    """In strict mode a text gives what it gives in normal mode, or a MacroError."""
    for engine in (ENGINE, LEGACY):
        quiet = engine.evaluate(text, environment())
        strict: str | None = None
        with contextlib.suppress(MacroError):
            strict = engine.expand(text, environment(), strict=True)
        assert strict == (None if quiet.diagnostics else quiet.text)


def check_tokens_are_in_order(text: str) -> None:
    """Tokens do not overlap and lie within the text."""
    tokens = tokenize(text)
    end = 0
    for kind, start, stop in zip(tokens.kinds, tokens.starts, tokens.ends, strict=True):
        assert end <= start <= stop <= len(text)
        assert (stop > start) == (kind != END)
        end = stop


def check_parts_of_a_clean_text_parse_alike(text: str) -> None:
    """What stands between two macros of a clean text, and each argument, parses on its own to what it is there."""
    parsed = parse(text)
    if not parsed.clean:
        return
    for low, first in enumerate(parsed.macros):
        for high in range(low + 1, len(parsed.macros)):
            inside = parsed.macros[low + 1 : high]
            _same(parse(text[first.end : parsed.macros[high].start]), inside, first.end)
    for macro in parsed.macros:
        for span in macro.args:
            _same(parse(text[span.start : span.end]), span.macros, span.start)


def _same(parsed: ParsedText, macros: list[ParsedMacro], shift: int) -> None:
    assert parsed.clean
    assert [_shape(macro, shift) for macro in parsed.macros] == [_shape(macro, 0) for macro in macros]


def _shape(macro: ParsedMacro, shift: int) -> tuple[object, ...]:
    spans = [macro.value] if macro.value else macro.args
    return (
        macro.start + shift,
        macro.end + shift,
        macro.name,
        macro.flags,
        macro.operator,
        [(span.start + shift, span.end + shift, [_shape(inner, shift) for inner in span.macros]) for span in spans],
    )


def _few_macros() -> MacroRegistry:
    """The macros of the reference, as the engine has them."""
    registry, own = MacroRegistry(), {"show", "list"}
    for name in MACROS.keys() - own:
        definition = REGISTRY.get(name)
        assert definition is not None
        registry.add(definition)
    shown = [MacroArgument(name, optional=True) for name in "abc"]
    registry.register("show", lambda call: f"<{call.offset}:{'|'.join(call.args)}>", args=shown)
    registry.register("list", lambda call: f"[{','.join(call.args)}]", list=MacroListArgument())
    return registry


FEW_MACROS = MacroEngine(_few_macros())
"""What the reference can do."""

_BLOCK_PIECES = (
    *("{{if 1}}", "{{if .x}}", "{{if::1::", "{{if !user}}", "{{#if 1}}", "{{IF 0}}", "{{ if {{.x}} }}", "{{/if}}"),
    *(
        "{{/if}}",
        "{{/if}}",
        "{{/IF}}",
        "{{else}}",
        "{{else}}",
        "{{reverse}}",
        "{{/reverse}}",
        "{{reverse::",
        "{{user}}",
    ),
    *("{{show}}", "{{/show}}", "{{show::a", "{{show a:", "{{list::1::", "{{list}}", "{{/list}}", "{{/user}}", "{{user"),
    *("{{nosuch}}", "{{/nosuch}}", "{{setvar::k::", "{{setvar::x}}", "{{/setvar}}", "{{getvar::k}}", "{{.x++}}"),
    *(
        "{{.x = ",
        "{{.x -= ",
        "{{.x > ",
        "{{.z || ",
        "{{$q ?? ",
        "{{.x a",
        "{{trim}}",
        "{{/trim}}",
        "{{// c}}",
        "{{//}}",
    ),
    *(
        "{{///}}",
        "}}",
        "}}",
        "}}",
        "{{!",
        "::}}",
        "::",
        "{",
        " b ",
        "\n",
        "\n  t",
        "\n",
        "  ",
        "text",
        "🦊",
        "<USER>",
        "\\}",
    ),
)


def _shuffled(seed: int) -> str:
    chosen = random.Random(seed)
    return "".join(chosen.choices(_BLOCK_PIECES, k=chosen.randint(2, 30)))


blocks = st.integers(0, 2**32).map(_shuffled)
"""Blocks, calls and shorthands, many of them crossing, unclosed or stray; longer than Hypothesis would make them."""


def check_expansion_equals_the_straightforward_one(text: str) -> None:
    """The engine gives the text, variables and problems that a parser for each part of a text gives."""
    ours, plain = InMemoryVariablesStore(), InMemoryVariablesStore()
    expansion = FEW_MACROS.evaluate(text, MacroEnvironment(user_name="Mira", variables=ours))
    known = [each for each in expansion.diagnostics if each.kind in ("syntax", "runtime_warning", "internal_error")]
    reference = Reference(plain)
    assert expansion.text == reference.resolve(text, 0)
    assert [(each.kind, each.phase or each.about) for each in known] == reference.problems
    assert ours.to_dict() == plain.to_dict()


_LINE = "[^\n\r\u2028\u2029]"
ORACLES = {
    "roll": (legacy_passes.up_to_brace(r"\{\{roll[ :]"), r"\{\{roll[ :]([^}]+)\}\}"),
    "datetimeformat": (
        legacy_passes.up_to_brace(r"\{\{datetimeformat +", may_be_empty=True),
        r"\{\{datetimeformat +([^}]*)\}\}",
    ),
    "setvar": (legacy_passes.assignment(r"\{\{setvar::", may_be_empty=True), r"\{\{setvar::([^:]+)::([^}]*)\}\}"),
    "addvar": (legacy_passes.assignment(r"\{\{setvar::", may_be_empty=False), r"\{\{setvar::([^:]+)::([^}]+)\}\}"),
    "outlet": (legacy_passes.up_to_braces(r"\{\{outlet::", in_line=True), rf"\{{\{{outlet::({_LINE}+?)\}}\}}"),
    "comment": (
        legacy_passes.up_to_braces(r"\{\{//", in_line=False, may_be_empty=True),
        r"\{\{//([\s\S]*?)\}\}",
    ),
    "timeDiff": (
        legacy_passes.up_to_braces(r"\{\{timeDiff::", in_line=True, separator="::"),
        rf"\{{\{{timeDiff::({_LINE}*?)::({_LINE}*?)\}}\}}",
    ),
    "banned": (legacy_passes.to_last_quote(r'\{\{banned "'), rf'\{{\{{banned "({_LINE}*)"\}}\}}'),
    "trim": (legacy_passes.trims, r"(?:\r?\n)*\{\{trim\}\}(?:\r?\n)*"),
}
"""The finders of the legacy engine, each with the regular expression it stands for."""

_FINDER_PIECES = (
    *("{{roll:", "{{roll ", "{{setvar::", "{{outlet::", "{{//", "{{timeDiff::", '{{banned "', "{{trim}}"),
    *("{{datetimeformat ", "}}", "}", '"}}', "::", ":", "a", " ", "\n", "\r\n", "\r"),
)
finder_texts = st.lists(st.sampled_from(_FINDER_PIECES), max_size=20).map("".join)


def check_finders_do_what_their_patterns_do(text: str) -> None:
    """Each finder finds what its regular expression finds."""
    for name, (find, source) in ORACLES.items():
        wanted = [(found.start(), found.end(), found.groups()) for found in re.finditer(source, text, re.IGNORECASE)]
        assert [(found.start, found.end, found.groups) for found in find(text)] == wanted, name


def check_passes_find_nothing_without_their_needle(text: str) -> None:
    """A pass that is skipped because its needle is missing would have found nothing."""
    lowered = text.lower()
    for each in (*legacy_passes.BEFORE_ENVIRONMENT, *legacy_passes.AFTER_ENVIRONMENT):
        assert each.needle in lowered or not list(each.find(text)), each.needle
