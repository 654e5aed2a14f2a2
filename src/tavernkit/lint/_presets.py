"""Presets and templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tavernkit._values import is_mapping
from tavernkit.cards._requirements import Severity
from tavernkit.errors import TavernKitError, WarningLog
from tavernkit.lint._finding import Finding, line_and_column
from tavernkit.lint._scripts import lint_regex_scripts
from tavernkit.lint._texts import lint_head_text, lint_text

if TYPE_CHECKING:
    from tavernkit.silly_tavern._files.preset import Preset

_INSTRUCT_TEXTS = ("input_sequence", "output_sequence", "system_sequence", "stop_sequence", "story_string_prefix")


def lint_preset(value: Mapping[str, object]) -> Iterator[Finding]:
    """Check a chat-completion preset of SillyTavern."""
    from tavernkit.silly_tavern._files.preset import Preset

    warnings = WarningLog()
    preset = Preset.from_json(value, warn=warnings)
    for message in warnings.messages:
        yield Finding(where="/", message=message, severity=Severity.WARNING, code="READ_WITH_WARNING")
    for message in preset.problems():
        yield Finding(where="/", message=message, severity=Severity.WARNING, code="PRESET")
    for prompt in preset.prompts:
        yield from lint_text(prompt.content or "", f"/prompts/{prompt.identifier}", "silly_tavern")
    yield from _cache_findings(preset)
    extensions = value.get("extensions")
    if is_mapping(extensions):
        yield from lint_regex_scripts(extensions.get("regex_scripts"), "/extensions/regex_scripts")


def _cache_findings(preset: Preset) -> Iterator[Finding]:
    """Check the prompts that are before the chat."""
    texts = {prompt.identifier: prompt.content or "" for prompt in preset.prompts if prompt.injection_position != 1}
    for entry in preset.effective_order:
        if entry.identifier == "chatHistory":
            return
        if entry.enabled:
            yield from lint_head_text(texts.get(entry.identifier, ""), f"/prompts/{entry.identifier}")


def lint_risu_preset(data: bytes, name: str) -> Iterator[Finding]:
    """Check a preset of RisuAI."""
    from tavernkit.risu_ai._files.preset import Preset

    warnings = WarningLog()
    preset = Preset.load(data, name=name, warn=warnings)
    for message in warnings.messages:
        yield Finding(where="/", message=message, severity=Severity.WARNING, code="READ_WITH_WARNING")
    for index, card in enumerate(preset.prompt_template or ()):
        for field in ("text", "inner_format", "default_text"):
            text = getattr(card, field, "")
            if isinstance(text, str):
                yield from lint_text(text, f"/promptTemplate/{index}/{field}", "risu_ai")
    for name_, text in (("mainPrompt", preset.main_prompt), ("jailbreak", preset.jailbreak)):
        yield from lint_text(text or "", f"/{name_}", "risu_ai")
    yield from lint_regex_scripts(preset.to_json().get("regex"), "/regex")


def lint_context_template(value: Mapping[str, object]) -> Iterator[Finding]:
    """Check a context template: the story string is Handlebars."""
    from tavernkit.silly_tavern._templates.handlebars.rendering import Template

    story = value.get("story_string")
    if not isinstance(story, str):
        yield Finding(where="/story_string", message="is not text", severity=Severity.ERROR, code="WRONG_TYPE")
        return
    try:
        Template.compile(story)
    except TavernKitError as error:
        yield Finding(where="/story_string", message=str(error), severity=Severity.ERROR, code="BAD_TEMPLATE")


def lint_instruct_template(value: Mapping[str, object]) -> Iterator[Finding]:
    """Check an instruct template."""
    for name, text in value.items():
        if name in _INSTRUCT_TEXTS or name.endswith("_sequence"):
            if not isinstance(text, str):
                yield Finding(where=f"/{name}", message="is not text", severity=Severity.ERROR, code="WRONG_TYPE")
            else:
                yield from lint_text(text, f"/{name}", "silly_tavern")
    if not value.get("output_sequence"):
        yield Finding(
            where="/output_sequence",
            message="is empty: nothing tells the model where its reply starts",
            severity=Severity.WARNING,
            code="NO_OUTPUT_SEQUENCE",
        )


def lint_jinja(text: str) -> Iterator[Finding]:
    """Check the syntax of a chat template, with the tags that servers add: loop controls and ``generation``."""
    from jinja2 import Environment, TemplateSyntaxError
    from jinja2.ext import Extension
    from jinja2.nodes import Node
    from jinja2.parser import Parser

    class Generation(Extension):
        """``{% generation %}`` marks what the model wrote, for training."""

        tags = {"generation"}  # noqa: RUF012  # Jinja's type

        def parse(self, parser: Parser) -> list[Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def broken(message: str, line: int | None = None) -> Finding:
        column = None if line is None else 1
        return Finding(
            where="/", message=message, severity=Severity.ERROR, code="BAD_TEMPLATE", line=line, column=column
        )

    try:
        Environment(autoescape=False, extensions=["jinja2.ext.loopcontrols", Generation]).parse(text)  # never rendered
    except TemplateSyntaxError as error:
        yield broken(str(error.message), error.lineno)
    except RecursionError:
        yield broken("is nested too deeply")
    except ValueError as error:  # a number with thousands of digits
        yield broken(f"cannot be read: {error}")


def lint_json_text(text: str) -> Iterator[Finding]:
    """Report where a file stops being valid JSON."""
    import json

    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        line, column = line_and_column(text, error.pos)
        yield Finding(
            where="/",
            message=f"is not JSON: {error.msg}",
            severity=Severity.ERROR,
            code="NOT_JSON",
            line=line,
            column=column,
        )
    except RecursionError:
        yield Finding(where="/", message="is nested too deeply", severity=Severity.ERROR, code="NOT_JSON")
    except ValueError as error:  # a number with thousands of digits
        yield Finding(where="/", message=f"cannot be read: {error}", severity=Severity.ERROR, code="NOT_JSON")
