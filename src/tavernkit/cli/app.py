"""The command, its subcommands, and error handling."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, cast, get_args

import typer
import typer.core

from tavernkit import __version__
from tavernkit.cli.files import stdin_once
from tavernkit.cli.options import take_plain_values
from tavernkit.cli.process import ExitCode, complaining_as_json

COMMANDS = (
    "demo",
    "build",
    "explain",
    "studio",
    "cache",
    "lint",
    "test",
    "diff",
    "doctor",
    "card",
    "lore",
    "macros",
    "cbs",
    "preset",
    "tokens",
    "tokenizers",
    "chat",
    "batch",
    "eval",
    "serve",
    "server",
)
"""Modules of ``cli.commands`` in the order of the help; each has ``register(app)``."""

SUMMARIES = {
    "demo": "Show what TavernKit does, on an example that comes with it. Needs no key and no network.",
    "build": "Build the prompt for a character card and print it.",
    "explain": "Show where every part of a prompt comes from, what it costs, and what was left out and why.",
    "studio": "Open a page that shows the prompt while you edit a card, book or preset.",
    "cache": "Replay a chat and show what a provider's prompt cache would save, turn by turn, and what breaks it.",
    "lint": "Find mistakes and surprises: schema problems, unknown macros, lore that cannot fire, slow regexes.",
    "test": "Test cards, lorebooks and presets: which lore fires, what is in the prompt, how large it is.",
    "diff": "Show what changed between two versions: fields, entries (added, removed, changed, moved), "
    "and the prompts.",
    "doctor": "Show what is in an installation, what is in use, what is missing, and what is not supported.",
    "tokens": "Count tokens, offline, with the model's own tokenizer if it is known.",
    "chat": "Talk to a character in the terminal, following SillyTavern or RisuAI, and save the chat in its format.",
    "batch": "Build the prompts of a grid: all combinations of cards, personas, presets, chats, messages and seeds.",
    "eval": "Test how well models call tools, write directives and keep to a language.",
    "serve": "Let any OpenAI client talk to your characters.",
    "card": "Show, convert, extract and embed character cards.",
    "lore": "Test and convert lorebooks.",
    "macros": "List and try SillyTavern's macros.",
    "cbs": "List and try RisuAI's CBS functions.",
    "preset": "Convert presets between SillyTavern and RisuAI.",
    "tokenizers": "Check how tokens are counted, and download tokenizer files.",
    "server": "Manage the service's database.",
}
"""What the help says of each command and group, in its order, so that it need not import them."""

EPILOG = (
    "Exit codes: 0 done · 1 problems found · 2 wrong usage, or a file that cannot be read or written · 3 the prompt "
    "does not fit its budget · 4 the model failed · 130 interrupted · 141 the reader of the output closed it."
)

COMPLETION_VARIABLE = "_TAVERNKIT_COMPLETE"
"""What shells set to ask for completions."""

HELP_NAMES = ["-h", "--help"]

WORDS: dict[object, str] = {bool: "", str: "TEXT", int: "NUMBER", float: "NUMBER", datetime: "TIME", Path: "FILE"}
"""Names of types in the help."""


def make_app(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """Make the application with its commands."""
    app = typer.Typer(
        name="tavernkit",
        help="Build, explain and check the prompts of SillyTavern and RisuAI, from their own files.",
        epilog=EPILOG,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": HELP_NAMES},
    )
    app.callback()(_root)
    for name, summary in SUMMARIES.items() if not commands else ():
        app.command(name, help=summary)(_never)
    for name in commands:
        register = cast("Callable[[typer.Typer], None]", import_module(f"tavernkit.cli.commands.{name}").register)
        register(app)
    _lay_out_examples(app)
    return app


def _asked_for(arguments: Sequence[str]) -> Sequence[str]:
    """Return the module of the command that is asked for, as preparing the others takes longer than running it.

    The help, and errors about commands that do not exist, need none. Completion in a shell needs all.
    """
    if COMPLETION_VARIABLE in os.environ:
        return COMMANDS
    name = next((each for each in arguments if not each.startswith("-")), None)
    return (name,) if name in SUMMARIES else ()


def _never() -> None:
    """Stand for a command in the help."""


def _lay_out_examples(app: typer.Typer) -> None:
    r"""Keep the line breaks of examples only.

    Docstrings mark examples with ``\b``, which the help needs as a control character.
    """
    for command in app.registered_commands:
        if command.help is not None:
            continue
        doc = cleandoc(command.callback.__doc__ or "") if command.callback is not None else ""
        text, mark, examples = doc.partition("\\b\n")
        paragraphs = "\n\n".join(part.replace("\n", " ") for part in text.split("\n\n"))
        command.help = paragraphs + (f"\b\n[bold]Examples[/bold]\n{examples}" if mark else "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _lay_out_examples(group.typer_instance)


def finish(command: object) -> None:
    """Let parameters take plain values quickly, and show readable names of types instead of Python's types."""
    for parameter in getattr(command, "params", ()):
        take_plain_values(parameter)
        if hasattr(parameter, "display_type_rich") and parameter.param_type_name == "argument":
            parameter.display_type_rich = _no_type
            parameter.metavar = (parameter.metavar or parameter.name).upper()
        described = getattr(parameter, "type_descriptor", None)
        if described is not None and parameter.metavar is None and parameter.param_type_name == "option":
            taken = next(iter(get_args(described.annotation)), described.annotation)
            parameter.metavar = WORDS.get(taken)
    if isinstance(command, typer.core.TyperCommand | typer.core.TyperGroup):
        asking = command.get_help_option(typer.Context(command, help_option_names=HELP_NAMES))
        if asking is not None:
            asking.metavar = ""
            take_plain_values(asking)
    for each in getattr(command, "commands", {}).values():
        finish(each)


def _no_type(ctx: object) -> None:
    """Show no type: the name of an argument says enough."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors of users and files are one readable line each.

    With ``--json`` these lines are JSON objects, for programs.
    """
    with complaining_as_json("--json" in arguments), stdin_once():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    debug = "--debug" in arguments or bool(os.environ.get("TAVERNKIT_DEBUG"))
    handler = _WarningHandler()
    logger = logging.getLogger("tavernkit")
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    try:
        command = typer.main.get_command(make_app(_asked_for(arguments)))
        finish(command)
        code = command.main(
            [each for each in arguments if each != "--debug"], prog_name="tavernkit", standalone_mode=False
        )
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            return ExitCode.UNREAD
        return end.code if isinstance(end.code, int) else ExitCode.OK
    except Exception as error:
        if debug:
            raise
        return _explain(error)
    finally:
        logger.propagate = propagate
        logger.removeHandler(handler)
    return code if isinstance(code, int) else ExitCode.OK


def _explain(error: Exception) -> int:
    from tavernkit.cli.terminal import complain
    from tavernkit.errors import MaxTokensExceededError, TavernKitError

    if hasattr(error, "format_message"):  # typer's own, whose base class it does not export
        return _explain_usage(error)
    if isinstance(error, MaxTokensExceededError):
        complain(f"{error}; give it more with --context-length, or keep less with --response-length", kind="error")
        return ExitCode.OVER_BUDGET
    if isinstance(error, OSError) and not isinstance(error, TavernKitError):  # a connection that failed is both
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror or error}", kind="error")
        return ExitCode.USAGE
    if isinstance(error, TavernKitError):
        complain(str(error), kind="error")
        return ExitCode.MODEL if _is_about_the_model(error) else ExitCode.USAGE
    complain(f"{type(error).__name__}: {error}", kind="error")
    complain("this is a bug in tavernkit; --debug shows where it comes from", kind="note")
    return ExitCode.INTERNAL


def _explain_usage(error: Exception) -> int:
    from tavernkit.cli.terminal import complain

    if type(error).__name__ != "NoArgsIsHelpError":  # its help has been printed
        near = getattr(error, "possibilities", None)
        if near:  # of a misspelled option; the nearest comes first
            message = f"{error}. Did you mean {near[0]!r}?"
        else:
            message = str(getattr(error, "format_message")()).removeprefix("Invalid value: ").rstrip(".")  # noqa: B009  # see above
        context = getattr(error, "ctx", None)
        help_of = f" (see {context.command_path} --help)" if context is not None else ""
        complain(message + help_of, kind="error")
    return ExitCode.USAGE


def _is_about_the_model(error: Exception) -> bool:
    from tavernkit.models import ModelError

    return isinstance(error, ModelError)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=_print_version,
            show_default=False,
        ),
    ] = False,
    debug: Annotated[  # read from the arguments before any command runs
        bool,
        typer.Option(
            "--debug", help="Show where an error comes from; may be anywhere on the line.", show_default=False
        ),
    ] = False,
) -> None:
    del debug, version


class _WarningHandler(logging.Handler):
    """Shows the library's warnings as one line each, without duplicates."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        from tavernkit.cli.terminal import complain

        message = record.getMessage()
        if message not in self._seen:
            self._seen.add(message)
            complain(message)
