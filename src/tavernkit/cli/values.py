"""Values of options and arguments, taken without pydantic where nothing can be wrong with them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

_NUMBER = re.compile(r"-?\d{1,15}(?P<fraction>\.\d{1,15})?", re.ASCII)
_PATH_CHECKS = ("allow_dash", "resolve_path", "writable", "path_type")


class _UnsureError(Exception):
    """The value may be wrong: typer has to look at it."""


def take_plain_values(parameter: Any) -> None:  # Any: typer's parameters have no public type
    """Let a parameter of a command take plain values as they are, and leave the rest to typer.

    Newer versions of typer make a pydantic validator for every option of a command, given or not. Importing pydantic
    and making them takes longer than most commands.
    """
    described = getattr(parameter, "type_descriptor", None)
    if described is None:
        return
    process: Callable[[Any, Any], Any] = parameter.process_value
    several = parameter.multiple or parameter.nargs == -1

    def process_value(context: Any, value: Any) -> Any:
        try:
            if value is not None:
                taken = _take(value, described.annotation, described.parameter_info)
            elif parameter.required:
                raise _UnsureError
            else:
                taken = () if several else None
        except _UnsureError:
            return process(context, value)
        return taken if parameter.callback is None else parameter.callback(context, parameter, taken)

    parameter.process_value = process_value


def _take(value: Any, annotation: Any, info: Any) -> object:
    """Return a value as its parameter's type.

    Raises:
        _UnsureError: It may be wrong.
    """
    if get_origin(annotation) is list and type(value) in (list, tuple) and value:
        (item,) = get_args(annotation)
        return [_take(each, item, info) for each in value]
    if info.parser is not None:
        return _parse(value, info.parser)
    if get_origin(annotation) is Literal and value in get_args(annotation):
        return value
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _member(value, annotation)
    if annotation in (str, bool) and type(value) is annotation:
        return value
    if annotation in (int, float):
        return _number(value, annotation, info)
    if annotation is Path and isinstance(value, str | Path):
        return _path(value, info)
    raise _UnsureError


def _parse(value: object, parser: Callable[[object], object]) -> object:
    try:
        return parser(value)
    except Exception:  # noqa: BLE001  # typer tells the user
        raise _UnsureError from None


def _member(value: object, annotation: type[Enum]) -> Enum:
    try:
        return annotation(value)
    except ValueError:
        raise _UnsureError from None


def _number(value: object, annotation: type[int] | type[float], info: Any) -> float:
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value)
        if found is None or (annotation is int and found["fraction"]):
            raise _UnsureError
    elif type(value) is not annotation:
        raise _UnsureError
    number = annotation(value)
    if (info.min is not None and number < info.min) or (info.max is not None and number > info.max):
        raise _UnsureError
    return number


def _path(value: str | Path, info: Any) -> Path:
    if not (info.file_okay and info.dir_okay) or any(getattr(info, check) for check in _PATH_CHECKS):
        raise _UnsureError
    path = Path(value)
    try:
        path.stat()
    except OSError:
        if info.exists:
            raise _UnsureError from None
    except ValueError:  # no path at all
        raise _UnsureError from None
    else:
        if not os.access(path, os.R_OK):
            raise _UnsureError
    return path
