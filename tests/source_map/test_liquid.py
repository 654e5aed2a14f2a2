"""Source maps of VibeTavern's prompts, which may be Liquid templates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit import vibe_tavern as vt
from tavernkit.cards import Character, User
from tavernkit.prompt import Plan
from tests.source_map.recorded import problems

CARD = Character(name="Aria", description="A lighthouse keeper.", post_history_instructions="Be brief.")


def build(template: str, **inputs: Any) -> Plan:
    pytest.importorskip("liquid")
    return vt.build(
        character=CARD,
        user=User(name="Ann", persona="Ann is a sailor."),
        system_template=template,
        message="Hello",
        data={"weather": "It rains.", "names": ["Bel", "Cor"]},
        **inputs,
    )


def test_an_expression_is_expanded_and_goes_on_to_its_source() -> None:
    plan = build("You are {{ char }}. {{ description }} {{ context.weather }}")
    found = plan.source_map()
    assert found.exact
    (place,) = found.where("A lighthouse keeper.")
    (span,) = place.spans
    assert (span.kind, span.name) == ("expanded", "description")
    assert [source.pointer for source in span.sources] == ["/data/description"]
    (written,) = span.written
    assert written.source is not None
    assert (written.source.name, written.offset, len(written)) == ("system_template", 20, len("{{ description }}"))
    (words,) = found.where("You are ")
    assert [(span.kind, span.offset) for span in words.spans] == [("verbatim", 0)]
    (rain,) = found.where("It rains.")
    assert [source.id for source in rain.spans[0].sources] == ["data:/weather"]


def test_what_filters_and_tags_make_says_where_they_are_written() -> None:
    plan = build("{{ char | upcase }}{% if user -%}  meets {{ user }}{% endif %} {% cycle 'a', 'b' %}")
    found = plan.source_map()
    (upper,) = found.where("ARIA")
    assert (upper.spans[0].kind, upper.spans[0].name, upper.spans[0].inner) == ("expanded", "char", ())
    assert upper.spans[0].sources[0].name == "system_template"
    (meets,) = found.where("meets ")
    assert meets.spans[0].kind == "verbatim"
    cycle = found.at(0, len(found.messages[0].text) - 1)
    assert (cycle.kind, cycle.name) == ("expanded", "cycle")


def test_captured_text_and_loops_keep_their_places() -> None:
    plan = build(
        r"{% capture who %}dear {{ user }}{% endcapture %}Hello \{ {{ who }}"
        "{% for n in context.names %}, {{ n }}{% endfor %}"
    )
    found = plan.source_map()
    assert found.messages[0].text == "Hello { dear Ann, Bel, Cor"
    assert list(problems(found)) == []
    (span,) = found.where("dear ")[0].spans
    assert (span.kind, span.name) == ("expanded", "who")
    (name,) = found.where("Cor")
    assert [source.id for source in name.spans[0].sources] == ["data:/names/1"]
    assert all(each.kind != "added" for each in found.messages[0].spans)


def test_the_built_in_texts_lead_to_the_card() -> None:
    plan = vt.build(
        character=CARD,
        user=User(name="Ann", persona="Ann is a sailor."),
        message="Hello",
        history=[{"role": "user", "content": "Who are you?"}],
    )
    found = plan.source_map()
    assert found.exact
    assert list(problems(found)) == []
    for words, source in (
        ("A lighthouse keeper.", "card:Aria/data/description"),
        ("Ann is a sailor.", "persona:Ann/persona"),
        ("Be brief.", "card:Aria/data/post_history_instructions"),
        ("Who are you?", "chat:chat/0/content"),
        ("Hello", "message:"),
    ):
        (place,) = found.where(words)
        assert [each.id for each in place.spans[0].sources] == [source]


PARTS = st.sampled_from(
    [
        "{{ char }}",
        "{{- user -}}",
        "{{ description | upcase }}",
        "{% if user %}",
        "{% endif %}",
        "{% raw %}{{",
        "{% endraw %}",
        "{% assign x = char %}",
        "{{ x }}",
        "\\{",
        "\n",
        " \t",
        "é🕯",
        "text ",
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(PARTS, max_size=8).map("".join))
def test_maps_of_generated_templates_are_exact(template: str) -> None:
    plan = build(template, warn=None)
    found = plan.source_map()
    assert found.exact
    assert list(problems(found)) == []
