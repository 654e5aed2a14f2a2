"""What is wrong with a template, and where."""

from __future__ import annotations

from tavernkit.silly_tavern.errors import InvalidContextTemplateError


def template_error(message: str, template: str, position: int) -> InvalidContextTemplateError:
    """An error that names its line and column, both counted from 1."""
    line = template.count("\n", 0, position) + 1
    column = position - (template.rfind("\n", 0, position) + 1) + 1
    return InvalidContextTemplateError(f"line {line}, column {column}: {message}", line=line, column=column)
