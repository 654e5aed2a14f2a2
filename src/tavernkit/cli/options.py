"""Options that several commands share, and how options are declared and read."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints

import typer

from tavernkit._dataclass import dataclass
from tavernkit.cli.process import ExitCode
from tavernkit.errors import ConfigError

if TYPE_CHECKING:
    from tavernkit._values import Json
    from tavernkit.models import Model


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


def takes(group: type[Any], *, without: Sequence[str] = ()) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Add the fields of a dataclass to a command as options; it gets the object as its first argument.

    Args:
        group: The dataclass.
        without: Fields that keep their default, as the command would ignore them.
    """

    def decorate(command: Callable[..., T]) -> Callable[..., T]:
        hints = get_type_hints(group, include_extras=True)
        fields = [field for field in dataclasses.fields(group) if field.name not in without]
        names = [field.name for field in fields]
        shared = [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
            )
            for field in fields
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


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The options of every command that expands a text."""

    given: Annotated[str, typer.Argument(metavar="TEXT", help="The text to expand; - is stdin.", show_default=False)]
    card: Annotated[
        Path | None, typer.Option("--card", help="Character card that the text may refer to; - is stdin.")
    ] = None
    user: Annotated[str, typer.Option("--user", "-u", help="The user's name.")] = "User"
    char: Annotated[str, typer.Option("--char", help="The character's name (default: the card's).")] = ""
    variable: Annotated[
        list[str] | None, typer.Option("--var", help="A chat variable, name=value; may be repeated.")
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", help="Makes dice repeatable.")] = None
    now: Annotated[datetime | None, typer.Option("--now", help="The time that the text sees (UTC).")] = None
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything is wrong.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with diagnostics.")] = False

    @property
    def text(self) -> str:
        """The text to expand."""
        from tavernkit.cli.files import STDIN, read_text

        return read_text(Path(STDIN)).removesuffix("\n") if self.given == STDIN else self.given

    @property
    def variables(self) -> dict[str, Json]:
        """The chat variables."""
        return dict(named_values(self.variable))


class Found(Protocol):
    """A problem in the text."""

    @property
    def kind(self) -> str:
        """The kind of problem."""
        ...

    @property
    def message(self) -> str:
        """What was wrong."""
        ...

    @property
    def position(self) -> int | None:
        """The position in the text."""
        ...


def named_values(given: Sequence[str] | None) -> dict[str, str]:
    """Read ``name=value`` options."""
    found: dict[str, str] = {}
    for each in given or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"{each!r} is not of the form name=value")
        found[name] = value
    return found


def show_expanded(options: TextOptions, text: str, diagnostics: Sequence[Found]) -> None:
    """Print an expanded text and its warnings."""
    from tavernkit.cli.terminal import complain, show_report, show_text

    if options.as_json:
        found: list[Json] = [
            {"kind": each.kind, "message": each.message, "position": each.position} for each in diagnostics
        ]
        show_report({"text": text, "diagnostics": found})
    else:
        show_text(text)
        for each in diagnostics:
            complain(str(each))
    if options.strict and diagnostics:
        raise typer.Exit(ExitCode.PROBLEMS)


SCRIPTED = "scripted"
"""The name of the model that comes with TavernKit."""

MODEL = "The model"


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """A provider's model, a model at an address, or the scripted model. Keys are read from the environment only."""

    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="Another server with the provider's protocol (default: OpenAI's); its key is in TAVERNKIT_API_KEY.",
            envvar="TAVERNKIT_BASE_URL",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "--chat-model",
            metavar="NAME",
            help="provider:name, such as openai:gpt-4o; the name alone, with --base-url; or scripted.",
            envvar="TAVERNKIT_MODEL",
            rich_help_panel=MODEL,
        ),
    ] = None
    reply: Annotated[
        list[str] | None,
        typer.Option("--reply", help="What the scripted model says; may be repeated.", rich_help_panel=MODEL),
    ] = None

    @property
    def scripted(self) -> bool:
        """True if the scripted model is meant."""
        return SCRIPTED in (self.base_url, self.model) or (self.base_url is None and bool(self.reply))

    @property
    def model_name(self) -> str | None:
        """The model's own name, without its provider, if it has one: it decides how tokens are counted."""
        name = split_name(self.model or "")[1]
        return None if not name or name == SCRIPTED or "://" in name else name

    @property
    def address(self) -> str:
        """Where the model is, for messages."""
        return "the scripted model" if self.scripted else self.base_url or self.model or ""

    def connect(self, *, text: bool = False) -> Model:
        """Make the model; ``text`` selects text completion instead of chat."""
        if self.scripted:
            from tavernkit.testing import ScriptedModel, streamed

            replies = self.reply or ['*She looks up.* "Go on. I am listening."']
            return ScriptedModel(*(streamed(*_pieces(reply)) for reply in replies), repeat_last=True)
        provider, name = split_name(self.model or "")
        if self.base_url is None and not provider and ":" not in name:
            raise typer.BadParameter(
                "name the model with --model provider:name, such as openai:gpt-4o, or its address with --base-url URL; "
                "--model scripted needs neither"
            )
        require_models()
        from tavernkit.models import Endpoint, OpenAIModel, TextModel, with_retries
        from tavernkit.models._factory import user_model

        if not provider and self.base_url is not None:
            make = TextModel if text else OpenAIModel
            return with_retries(make(name or "default", Endpoint.from_env(base_url=self.base_url)))
        assert self.model is not None
        return user_model(self.model, base_url=self.base_url)


def split_name(name: str) -> tuple[str, str]:
    """Divide ``provider:name``; the provider is empty if there is none, as in ``qwen:7b``."""
    from tavernkit.models._factory import ALIASES, PROVIDERS

    provider, colon, rest = name.partition(":")
    return (provider, rest) if colon and (provider in PROVIDERS or provider in ALIASES) else ("", name)


def require_models() -> None:
    """Raise early if the extra for models is missing."""
    try:
        importlib.import_module("httpx")
    except ModuleNotFoundError as error:
        raise ConfigError("models need their extra: pip install 'tavernkit[models]'", code="EXTRA_MISSING") from error


def _pieces(text: str) -> list[str]:
    """Yield a reply word by word, as a model would stream it."""
    words = text.split(" ")
    return [word if number == 0 else f" {word}" for number, word in enumerate(words)]
