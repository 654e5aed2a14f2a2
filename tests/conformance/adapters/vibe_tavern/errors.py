"""Errors in the form the vectors have."""

from __future__ import annotations

import builtins


def raised(error: dict[str, str]) -> Exception:
    """The error that a case describes; one that Python has no class for gets a class of its own."""
    kind = getattr(builtins, error["class"], None)
    if isinstance(kind, type) and issubclass(kind, Exception) and str(kind("x")) == "x":
        return kind(error["message"])
    return type(error["class"], (Exception,), {})(error["message"])


def error_form(error: BaseException) -> dict[str, object]:
    """Class, message, and the codes and numbers that the error carries."""
    form: dict[str, object] = {"class": type(error).__name__, "message": str(error)}
    for name in ("code", "kind", "status"):
        if hasattr(error, name):
            form[name] = getattr(error, name)
    return form
