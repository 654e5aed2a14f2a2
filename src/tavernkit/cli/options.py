"""Declares options that several commands share: groups of them as a dataclass, and choices in any spelling."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar, get_type_hints

import typer

T = TypeVar("T")


class Platform(StrEnum):
    """The program whose rules or format are used."""

    SILLY_TAVERN = "silly_tavern"
    RISU_AI = "risu_ai"


CHARACTER_BOOK = "character_book"
"""The format of books inside cards, which belongs to no program."""


def choice_option(choices: Sequence[str], *names: str, help: str, panel: str | None = None) -> object:  # noqa: A002  # typer's word
    """Make an option that accepts its choices in any spelling: ``silly_tavern``, ``SillyTavern``."""
    known = {_join(each): each for each in choices}

    def read(value: str) -> str:
        found = known.get(_join(value))
        if found is None:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}")
        return found

    def complete(incomplete: str) -> list[str]:
        return [each for each in choices if each.startswith(incomplete)]

    return typer.Option(
        *names,
        help=help,
        parser=read,
        metavar=f"<{'|'.join(choices)}>",
        autocompletion=complete,
        rich_help_panel=panel,
        show_default=False,
    )


def _join(value: str) -> str:
    return value.lower().replace("_", "").replace("-", "")


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
