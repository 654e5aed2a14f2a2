"""What holds for every story string, whatever is in it."""

from __future__ import annotations

from hypothesis import strategies as st

from tavernkit.silly_tavern import ContextTemplate, InstructTemplate
from tavernkit.silly_tavern._templates.handlebars.rendering import Template
from tavernkit.silly_tavern._text_completion.story import StoryMacros, StoryString, render_story_string
from tavernkit.silly_tavern.errors import InvalidContextTemplateError

PARAMETERS = {"description": "D\n", "persona": "", "char": "V", "system": "S {{x}} S"}
TAGS = [
    *"ab {}~/#^!&>*\\\"'[]()|=.@\n\r\t",
    "{{",
    "}}",
    "{{{",
    "}}}",
    "\\{{",
    "{{#if ",
    "{{#with ",
    "{{#each ",
    "{{#unless ",
    "{{/if}}",
    "{{/with}}",
    "{{/each}}",
    "{{else}}",
    "{{else if ",
    "{{^}}",
    "{{!-- ",
    "--}}",
    "{{trim}}",
    "(lookup this ",
    "as |x|",
    "this",
    "../",
    "@root",
    *(f"{{{{{name}}}}}" for name in PARAMETERS),
    *PARAMETERS,
]
templates = st.lists(st.sampled_from(TAGS), max_size=16).map("".join) | st.text(max_size=30)


def rendered(template: str) -> StoryString | InvalidContextTemplateError:
    """The story string, or why there is none."""
    macros = StoryMacros(str, lambda text: text.replace("{{trim}}", ""))
    try:
        return render_story_string(ContextTemplate(story_string=template), InstructTemplate.off(), PARAMETERS, macros)
    except InvalidContextTemplateError as error:
        return error


def check_parts(template: str) -> None:
    """A template is refused with its place, or rendered into parts that make up its text."""
    story = rendered(template)
    if isinstance(story, InvalidContextTemplateError):
        lines = template.split("\n")
        line, column = story.line or 0, story.column or 0
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1
        return
    assert "".join(part.text for part in story.parts) == story.text
    assert not story.text.startswith("\n")


def check_plain(text: str) -> None:
    """A text without tags stays as it is."""
    plain = text.replace("{", "")
    assert "".join(piece.text for piece in Template.compile(plain).render({}, str)) == plain
