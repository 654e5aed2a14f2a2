from __future__ import annotations

import pytest

from tavernkit.silly_tavern._templates.handlebars import parser
from tavernkit.silly_tavern._templates.handlebars.rendering import Template
from tavernkit.silly_tavern.errors import InvalidContextTemplateError

PARAMETERS = {"description": "A baker.", "persona": "", "scenario": "Rain", "blank": " ", "char": "Vesna"}


def render(template: str, **parameters: str) -> str:
    pieces = Template.compile(template).render({**PARAMETERS, **parameters}, lambda name: f"<{name}>")
    return "".join(piece.text for piece in pieces)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("", ""),
        ("no tags } {", "no tags } {"),
        ("{{description}}|{{{description}}}|{{&description}}", "A baker.|A baker.|A baker."),
        ("{{ char }}{{~char~}} {{char}}", "VesnaVesnaVesna"),
        ("{{persona}}|{{nope}}", "|<nope>"),
        ("{{this.nope}}|{{a.b}}|{{../char}}|{{@root.nope}}|{{dothis}}", "||||"),
        ("{{@nope}}|{{@char}}|{{@root.char}}|{{nope.at x}}", "<nope>|<char>|Vesna|<nope.at>"),
        ("{{#if (nope)}}y{{/if}}{{#if (persona)}}y{{/if}}", "yy"),
        ("{{description.length}}{{char.[0]}}{{char.[9]}}", "8V"),
        ('{{"char"}}|{{[char]}}|{{this.[char]}}|{{./char}}', "Vesna|Vesna|Vesna|Vesna"),
        ("{{12}}|{{true}}|{{null}}|{{undefined}}", "<12>|<true>|<null>|<undefined>"),
        ("{{elsewhere}}|{{ else_1 }}", "<elsewhere>|<else_1>"),
        ("{{1.50}}|{{-0}}|{{007}}|{{#2.0}}x{{/2}}", "<1.5>|<0>|<7>|x"),
        ("{{lookup 0 'x'}}|{{lookup 0}}|{{lookup false 'x'}}|{{lookup persona}}|{{lookup nope 'x'}}", "0|0|false||"),
    ],
)
def test_values(template: str, expected: str):
    assert render(template) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{#if persona}}y{{else}}n{{/if}}{{#if blank}}y{{/if}}", "ny"),
        ("{{#if nope}}y{{^}}n{{/if}}{{#unless nope}}u{{/unless}}", "nu"),
        ("{{#if persona}}a{{else if nope}}b{{else if scenario}}c{{else}}d{{/if}}", "c"),
        ("{{^if persona}}none{{else}}some{{/if}}", "none"),
        ("{{#if 0}}a{{/if}}{{#if 0 includeZero=true}}b{{/if}}{{#if 'x'}}c{{/if}}{{#if false}}d{{/if}}", "bc"),
        (
            "{{#with char as |name|}}{{this}} {{name}} {{../scenario}} {{@root.scenario}}{{/with}}",
            "Vesna Vesna Rain Rain",
        ),
        ("{{#with persona}}a{{else}}b{{/with}}{{#each char}}a{{else}}b{{/each}}", "bb"),
        ("{{#char}}{{this}} {{description}} {{length}}{{/char}}", "Vesna <description> 5"),
        ("{{#persona}}in{{else}}out{{/persona}}{{^persona}}none{{/persona}}", "in"),
        ("{{#nope}}[{{this}}]{{/nope}}{{^nope}}x{{/nope}}", "[<nope>]"),
        ("{{#this.nope}}a{{else}}b{{/this.nope}}", "b"),
        (
            "{{lookup this 'char'}}|{{lookup this (lookup this 'no')}}|{{#if (lookup this \"char\")}}y{{/if}}",
            "Vesna||y",
        ),
        ("{{reverse abc}}|{{#reverse abc}}x{{/reverse}}", "<reverse>|<reverse>"),
        ("{{log 'x'}}{{trim}}", "{{trim}}"),
        ("{{{{raw}}}} {{char}} {{{{/raw}}}}", " {{char}} "),
    ],
)
def test_helpers_and_sections(template: str, expected: str):
    assert render(template) == expected


def test_each_goes_through_an_object():
    text = "".join(
        piece.text
        for piece in Template.compile(
            "{{#each this as |value key|}}{{@index}}{{@key}}={{this}}/{{value}}/{{key}}"
            "{{#unless @last}},{{/unless}}{{#if @first}}!{{/if}}{{/each}}"
        ).render({"a": "1", "b": "2"}, str)
    )
    assert text == "0a=1/1/a,!1b=2/2/b"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("a{{! x }}b{{!-- }} --}}c", "abc"),
        ("a{{!--}}b{{!---}}c", "abc"),
        ("a\n{{! x }}\nb", "a\nb"),
        ("a\n  {{#if char}}  \nb\n  {{/if}}\nc", "a\nb\nc"),
        ("{{#if char}}\nb\n{{else}}\nc\n{{/if}}", "b\n"),
        ("{{#if persona}}\nb\n{{else if char}}\nc\n{{else}}\nd\n{{/if}}\ne", "c\ne"),
        ("x {{#if char}}\nb{{/if}}\nc", "x \nb\nc"),
        ("{{char}}\n{{char}}\n", "Vesna\nVesna\n"),
        ("a {{~#if char~}} b {{~else~}} c {{~/if~}} d", "abd"),
        ("a {{#if persona~}} b {{~^~}} c {{/if}} d", "a c  d"),
        ("\t{{~! x ~}}\n b", "b"),
    ],
)
def test_whitespace_around_tags(template: str, expected: str):
    assert render(template) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (r"\{{char}} {{char}}", "{{char}} Vesna"),
        (r"\\{{char}}", r"\Vesna"),
        (r"a \{{x}} \{{y}} \\{{char}}", r"a {{x}} {{y}} \Vesna"),
        (r"\ {{char}} \n", r"\ Vesna \n"),
    ],
)
def test_escapes(template: str, expected: str):
    assert render(template) == expected


@pytest.mark.parametrize(
    ("template", "line", "column"),
    [
        ("{{#if a}}b", 1, 1),
        ("a\nb {{/if}}", 2, 3),
        ("a\n\n  {{else}}", 3, 3),
        ("{{if a}}x{{/if}}", 1, 10),
        ("{{#if a}}x{{/unless}}", 1, 11),
        ("a{{// x}}b", 1, 2),
        ("{{time_UTC+2}}", 1, 3),
        ("{{> part}}", 1, 1),
        ("{{#> part}}{{/part}}", 1, 1),
        ("{{* deco}}", 1, 1),
        ("{{char", 1, 3),
        ("{{}}", 1, 3),
        ("{{char.this}}", 1, 8),
        ("{{{char}}", 1, 8),
        ("{{!-- never ends }}", 1, 3),
        ("{{#if a=1 b}}x{{/if}}", 1, 11),
        ("{{#if}}x{{/if}}", 1, 1),
        ("{{#if a b}}x{{/if}}", 1, 1),
        ("a {{if char}}", 1, 3),
        ("{{char 'x'}}", 1, 1),
        ("{{lookup}}", 1, 1),
        ("{{lookup this}}", 1, 1),
        ("a{{lookup this 'char' 'x'}}", 1, 2),
        ("{{{{raw}}}} never closed", 1, 12),
    ],
)
def test_what_is_refused_has_a_line_and_a_column(template: str, line: int, column: int):
    with pytest.raises(InvalidContextTemplateError) as error:
        render(template)
    assert (error.value.line, error.value.column) == (line, column)
    assert str(error.value).startswith(f"line {line}, column {column}: ")


def test_pieces_know_their_parameter():
    pieces = Template.compile("a {{char}}{{#with scenario}}{{this}}{{/with}}{{nope}}").render(PARAMETERS, str)
    assert [(piece.text, piece.parameter) for piece in pieces] == [
        ("a ", None),
        ("Vesna", "char"),
        ("Rain", "scenario"),
        ("nope", None),
    ]


def test_deep_nesting_is_refused():
    for template in (
        "{{#if char}}" * 100 + "{{/if}}" * 100,
        "{{#if a}}" + "{{else if a}}" * 100 + "{{/if}}",
        "{{#if " + "(lookup this " * 100 + "'a'" + ")" * 100 + "}}{{/if}}",
    ):
        with pytest.raises(InvalidContextTemplateError, match="nested deeper"):
            render(template)


def test_loops_in_loops_come_to_an_end():
    template = "{{#each @root}}" * 12 + "x" + "{{/each}}" * 12
    with pytest.raises(InvalidContextTemplateError, match="more than"):
        render(template)


def test_a_huge_template_is_refused():
    with pytest.raises(InvalidContextTemplateError, match="longer than"):
        Template.compile("x" * (parser.MAX_TEMPLATE_CHARS + 1))


def test_long_runs_of_blanks_cost_little():
    assert render("\n" * 200_000 + "{{#if char}}" + " " * 200_000 + "x{{/if}}" + "\n" * 200_000).strip() == "x"
