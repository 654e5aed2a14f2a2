"""Errors in the form the vectors have."""

from __future__ import annotations


def error_form(error: BaseException) -> dict[str, object]:
    """Class, message, and the codes and numbers that the error carries."""
    form: dict[str, object] = {"class": type(error).__name__, "message": str(error)}
    for name in ("code", "kind", "status"):
        if hasattr(error, name):
            form[name] = getattr(error, name)
    return form
