"""Answers of models, schemas of tools and templates that take the time of their length, not minutes."""

from __future__ import annotations

import pytest

from tavernkit._values import Json, JsonObject
from tavernkit.models import Accumulator, ReplyPiece, ToolCallPiece
from tavernkit.vibe_tavern._json_schema import check_arguments
from tavernkit.vibe_tavern._liquid_macros.render import render_liquid
from tavernkit.vibe_tavern._output_tags import OutputTagsConfig, transform
from tavernkit.vibe_tavern._tool_calling.calls import call_id, read_tool_calls
from tavernkit.vibe_tavern._tool_calling.final_stream import OutputTagsStream
from tavernkit.vibe_tavern.errors import LiquidError
from tests.quickness import linear_time

TAGS = OutputTagsConfig.from_mapping({"enabled": True, "rules": [{"tag": "think", "action": "strip"}]})


@pytest.mark.parametrize("opener", ["```", "<think>", "{{ "])
def test_a_stream_that_stays_open_for_long_is_not_copied_for_every_piece(opener: str) -> None:
    stream = OutputTagsStream(TAGS)
    pieces = [opener, *["word "] * 300_000]
    with linear_time():
        shown = [stream.feed(piece) for piece in pieces]
        shown.append(stream.finish())
    assert "".join(shown) == transform("".join(pieces), TAGS).text


def test_arguments_that_are_streamed_in_small_pieces_are_put_together_once() -> None:
    collected = Accumulator()
    piece = ReplyPiece(tool_calls=(ToolCallPiece(index=0, id="c", name="roll", arguments="abcd"),))
    with linear_time():
        for _ in range(400_000):
            collected.add(piece)
        (call,) = collected.reply().tool_calls
    assert (call.name, call.arguments) == ("roll", "abcd" * 400_000)


def test_many_calls_with_one_id_get_ids_of_their_own() -> None:
    listed: list[Json] = [{"id": "a__3"}, *({"id": "a"} for _ in range(60_000))]
    with linear_time():
        calls = read_tool_calls(listed)
    assert [call_id(call) for call in calls[:4]] == ["a__3", "a", "a__2", "a__4"]
    assert len({call_id(call) for call in calls}) == 60_001


@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf"])
def test_a_schema_that_refers_to_itself_in_many_places_is_not_judged_to_the_end(key: str) -> None:
    schema: JsonObject = {"properties": {"a": {key: [{"$ref": "#/properties/a"}, {"$ref": "#/properties/a"}]}}}
    with linear_time():
        assert check_arguments({"a": 1}, schema) is None


def test_many_values_with_many_choices_are_not_judged_to_the_end() -> None:
    choices: list[Json] = [f"choice {number}" for number in range(20_000)]
    schema: JsonObject = {"additionalProperties": {"enum": choices}}
    with linear_time():
        assert check_arguments({f"key {number}": "choice 19999" for number in range(20_000)}, schema) is None
        assert check_arguments({"key": "choice"}, schema) is not None


@pytest.mark.parametrize("work", ['a | replace: "x", ""', "a | upcase | downcase", 'a | split: "" | size'])
def test_a_template_that_works_on_a_long_text_in_a_loop_runs_out_of_steps(work: str) -> None:
    grown = '{% assign a = "x" %}' + "{% assign a = a | append: a %}" * 15
    warnings: list[str] = []
    with linear_time():
        render_liquid(
            f"{grown}{{% for i in (1..100000) %}}{{% assign b = {work} | size %}}{{% endfor %}}", warn=warnings.append
        )
    assert "memory limits exceeded" in warnings[0]


@pytest.mark.parametrize(
    "work",
    [
        '{{ "1000d6" | rollp: 999, i }}',
        "{{ i | pick: 999, i }}",
        "{% if l contains i %}{% endif %}",
        "{{ words | sort | size }}",
        "{{ words | sort_natural | size }}",
        "{{ rows | sort: 'n' | size }}",
        "{{ rows | where: 'n', i | size }}",
    ],
)
def test_a_template_that_draws_searches_or_sorts_in_a_loop_runs_out_of_steps(work: str) -> None:
    warnings: list[str] = []
    with linear_time():
        render_liquid(
            f"{{% for i in (1..60000) %}}{work}{{% endfor %}}",
            assigns={
                "l": [f"word {number}" for number in range(50_000)],
                "words": [str(number * 7919 % 30_011) for number in range(30_000)],
                "rows": [{"n": number * 7919 % 10_007} for number in range(10_000)],
            },
            warn=warnings.append,
        )
    assert "memory limits exceeded" in warnings[0]


@pytest.mark.parametrize(
    "template", ["{{ l | replace: 'x', y }}", "{{ nested | join: y }}", "{{ nested | replace: 'x', y }}"]
)
def test_what_a_filter_would_make_of_a_list_is_known_before_it_is_made(template: str) -> None:
    elements = ["x"] * 20_000
    values = {"l": elements, "nested": [elements], "y": "y" * 190_000}
    with linear_time(), pytest.raises(LiquidError, match="memory limits exceeded"):
        render_liquid(template, assigns=values, strict=True)


def test_a_text_that_is_too_long_for_a_date_is_none() -> None:
    text = "1 " * 90_000
    with linear_time():
        for _ in range(100):
            assert render_liquid("{{ t | date: '%Y' }}", assigns={"t": text}) == text


def test_many_blanks_between_the_values_of_a_case_are_read_once() -> None:
    with linear_time():
        assert render_liquid(f"{{% case 'b' %}}{{% when 'a'{' ' * 150_000}, 'b' ! %}}x{{% endcase %}}") == "x"
