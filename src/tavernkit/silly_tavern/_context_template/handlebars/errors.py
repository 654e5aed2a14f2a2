"""Errors of templates, with their position."""

from __future__ import annotations

from tavernkit.silly_tavern.errors import InvalidContextTemplateError


def template_error(message: str, template: str, position: int) -> InvalidContextTemplateError:
    """Return an error with its line and column, both from 1."""
    line = template.count("\n", 0, position) + 1
    column = position - (template.rfind("\n", 0, position) + 1) + 1
    return InvalidContextTemplateError(f"line {line}, column {column}: {message}", line=line, column=column)
