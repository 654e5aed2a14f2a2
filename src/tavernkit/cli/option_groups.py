"""Options that several commands share, declared once as a dataclass."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def takes(group: type[Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Add the fields of a dataclass to a command as options; it gets the object as its first argument."""

    def decorate(command: Callable[..., T]) -> Callable[..., T]:
        hints = get_type_hints(group, include_extras=True)
        names = [field.name for field in dataclasses.fields(group)]
        shared = [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
            )
            for field in dataclasses.fields(group)
        ]
        signature = inspect.signature(command, eval_str=True)
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in list(signature.parameters.values())[1:]
        ]

        def run(**arguments: Any) -> T:
            inputs = group(**{name: arguments.pop(name) for name in names})
            return command(inputs, **arguments)

        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        parameters = [*shared, *own]
        run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]  # what typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _default(field: dataclasses.Field[Any]) -> object:
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
