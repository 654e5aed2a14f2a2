from __future__ import annotations

from typing import Any

import pytest

from tavernkit.silly_tavern import ContextTemplate, InstructTemplate
from tavernkit.silly_tavern._templates.templates import with_anchors
from tavernkit.silly_tavern._text_completion.story import StoryMacros, StoryString, render_story_string

PARAMETERS = {"system": "Be kind.", "description": "A baker.\nShe is old.", "personality": "shy", "char": "Vesna"}


def story(template: str, instruct: InstructTemplate | None = None, **context: Any) -> StoryString:
    off = InstructTemplate(enabled=False)
    macros = StoryMacros(str, lambda text: text.replace("\n{{trim}}", "").replace("{{shy}}", "bold"))
    return render_story_string(ContextTemplate(story_string=template, **context), instruct or off, PARAMETERS, macros)


def parts(template: str) -> list[tuple[str, str | None]]:
    return [(part.text, part.parameter) for part in story(template).parts]


def test_parts_are_cut_after_the_lines_their_parameters_end_in():
    assert parts("{{system}}\n{{description}}\n{{char}}: {{personality}}\nend\n") == [
        ("Be kind.\n", "system"),
        ("A baker.\nShe is old.\n", "description"),
        ("Vesna: shy\nend\n", "personality"),
    ]


def test_two_parameters_on_a_line_are_two_parts():
    assert parts("{{system}} {{personality}}") == [("Be kind.", "system"), (" shy\n", "personality")]


def test_a_text_without_parameters_is_the_templates_own():
    assert parts("Once.") == [("Once.\n", None)]
    assert parts("") == []


def test_what_macros_took_away_does_not_hide_the_rest():
    assert parts("{{system}}\n\n{{trim}}") == [("Be kind.\n", "system")]


@pytest.mark.parametrize(
    ("template", "instruct", "position", "expected"),
    [
        ("\n\n a", None, 0, " a\n"),
        ("a\n\n", None, 0, "a\n\n"),
        ("a", None, 1, "a"),
        ("a", None, 2, "a\n"),
        ("a", InstructTemplate(wrap=False), 0, "a"),
        ("a", InstructTemplate(wrap=True), 0, "a\n"),
        ("a", InstructTemplate(wrap=True, story_string_suffix="x"), 0, "a"),
        ("", None, 0, ""),
    ],
)
def test_the_end_of_the_story(template: str, instruct: InstructTemplate | None, position: int, expected: str):
    assert story(template, instruct, story_string_position=position).text == expected


def test_old_templates_get_anchors():
    before, after = "{{#if anchorBefore}}{{anchorBefore}}\n{{/if}}", "{{#if anchorAfter}}{{anchorAfter}}\n{{/if}}"
    assert with_anchors("x {{system}} y") == f"x {before}{{{{system}}}}{after} y"
    assert with_anchors("{{system}}{{trim}}\n") == f"{before}{{{{system}}}}{after}{{{{trim}}}}\n"
    assert with_anchors("plain") == f"{before}{after}plain"
    assert with_anchors("{{a}}{{trim}}b{{c}}") == f"{before}{{{{a}}}}{after}{{{{trim}}}}b{{{{c}}}}"
    complete = before + after
    assert with_anchors(complete) == complete


def test_only_templates_without_a_position_are_repaired():
    old = ContextTemplate.from_json({"name": "Old", "story_string": "{{system}}"})
    new = ContextTemplate.from_json({"name": "New", "story_string": "{{system}}", "story_string_position": 0})
    assert ("{{anchorBefore}}" in old.story_string, new.story_string) == (True, "{{system}}")
    assert old.to_json() == {"name": "Old", "story_string": "{{system}}"}


def test_selecting_a_template_keeps_the_texts_it_lacks():
    live = ContextTemplate(chat_start="---", example_separator="+++", use_stop_strings=True, story_string_depth=9)
    preset = ContextTemplate.from_json({"name": "New", "chat_start": "", "story_string_position": 0})
    after = live.with_preset(preset)
    assert (after.name, after.chat_start, after.example_separator) == ("New", "", "+++")
    assert (after.use_stop_strings, after.story_string_depth, after.story_string) == (False, 1, live.story_string)
