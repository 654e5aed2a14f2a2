"""``tavernkit chat``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tavernkit._dataclass import dataclass
from tavernkit._values import is_sequence
from tavernkit.cli.build_options import BuildOptions
from tavernkit.cli.exit_codes import ExitCode
from tavernkit.cli.model_options import ModelOptions
from tavernkit.cli.options import takes

if TYPE_CHECKING:
    from tavernkit._turns import TurnKind
    from tavernkit.cli.chat_session import Session

HELP = """\
/swipe             another version of the last reply, or the next one
/left /right       the version before or after
/regenerate        ask for the last reply again
/continue [TEXT]   continue the last message
/impersonate       let the model write your next message
/edit [N] TEXT     replace the text of a line (the last by default)
/lines             the lines of the chat with their numbers
/undo              undo the last operation
/branch [N]        continue in a copy that ends with a line (the last by default)
/speak NAME        let a member of the group speak
/explain           where the last prompt came from
/why ENTRY         why a lore entry was in the prompt or not
/save [FILE]       show where the chat is saved, or save a copy
/help              this list
/quit              end

Ctrl+C stops a reply and keeps the partial text; press it again to quit."""


@dataclass(frozen=True, kw_only=True)
class ChatOptions(ModelOptions, BuildOptions):
    """The options of a chat: the inputs of prompts, and a model, which also decides how tokens are counted."""


@takes(ChatOptions)
def chat(
    options: ChatOptions,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            help="Where to save the chat (default: the file it came from, or a new NAME.jsonl in this folder).",
        ),
    ] = None,
    say: Annotated[
        list[str] | None,
        typer.Option(
            "--say", help="Send this message and exit, instead of reading from the terminal; may be repeated."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --say: print the replies as JSON.")] = False,
) -> None:
    r"""Talk to a character in the terminal, following SillyTavern or RisuAI, and save the chat in its format.

    A provider's key is read from its usual environment variable, such as OPENAI_API_KEY; the key for --base-url from
    TAVERNKIT_API_KEY. In the chat, /help lists the commands. With --from-sillytavern, the chat continues in that folder
    unless --save names a file; close SillyTavern first.

    \b
    tavernkit chat aria.png --model openai:gpt-4o --book world.json
    tavernkit chat aria.png --base-url http://localhost:8000 --model my-model
    tavernkit chat aria.png --model scripted --platform risu_ai
    tavernkit chat --from-sillytavern data/default-user --character Aria --base-url http://localhost:8000
    tavernkit chat aria.png --model scripted --say "Who are you?" --json
    """
    from tavernkit.cli.chat_session import open_session

    session = open_session(options, save)
    with session.chat:
        talk = _Talk(session)
        code = talk.say(say, as_json=as_json) if say else talk.ask()
    if code:
        raise typer.Exit(code)


class _Talk:
    """A conversation in a terminal."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.chat = session.chat
        self.turns = 0
        self.failed = 0
        self.stopped = False
        """True if the user stopped the last reply."""
        self.draft = ""
        """The text that the next input line starts with."""

    def say(self, texts: list[str], *, as_json: bool) -> int:
        """Say some lines and return the exit code."""
        from tavernkit.cli.terminal import show_report

        replies: list[str] = []
        for text in texts:
            before = len(self.chat.lines)
            quiet = as_json or self.in_group
            reply = self.turn("send", text, silent=quiet)
            if self.stopped:
                raise KeyboardInterrupt
            if self.in_group:
                said = [line for line in self.chat.lines[before:] if not _is_user(line)]
                replies += map(_text, said)
                for line in () if as_json else said:
                    self.show_line(line)
            elif reply is not None:
                replies.append(reply)
            if not quiet:
                _write("\n")
        if as_json:
            show_report({"replies": replies, "file": str(self.session.path)})
        if self.failed:
            return ExitCode.MODEL if self.failed == self.turns else ExitCode.PROBLEMS
        return ExitCode.OK

    def ask(self) -> int:
        """Let the user type until they leave, and return the exit code."""
        from tavernkit.cli.interrupts import interruptible_input
        from tavernkit.cli.terminal import show, show_line, visible

        session = self.session
        show(f"Talking to {session.character_name}. /help lists commands, /quit ends.")
        # Without wrapping: a path must not be broken.
        show_line(f"The chat is saved in {session.path}; continue it with --chat.\n")
        for line in self.chat.lines[-4:]:
            self.show_line(line)
        while True:
            try:
                with _prefill(self.draft), interruptible_input():
                    text = input(f"{visible(session.user_name)}> ").strip()
            except EOFError:
                break
            self.draft = ""
            if text in ("/quit", "/exit"):
                break
            if text.startswith("/"):
                self.command(text)
            elif text:
                self.reply("send", text)
        return ExitCode.MODEL if self.turns and self.failed == self.turns else ExitCode.OK

    def command(self, line: str) -> None:
        """Run a command line that begins with a slash."""
        from tavernkit.cli.terminal import complain
        from tavernkit.errors import TavernKitError

        name, _, rest = line.partition(" ")
        action = _ACTIONS.get(name)
        if action is None:
            complain(f"there is no {name}; /help lists the commands", kind="note")
            return
        try:
            action(self, rest.strip())
        except (TavernKitError, OSError) as error:
            complain(str(error), kind="error")

    def reply(self, kind: TurnKind, text: str = "") -> None:
        """Run a turn and show who says what."""
        if self.in_group:
            before = len(self.chat.lines)
            self.turn(kind, text, silent=True)
            for line in self.chat.lines[before if kind == "send" else before - 1 :]:
                if not _is_user(line):
                    self.show_line(line)
            return
        _speaker(self.session.user_name if kind == "impersonate" else self.session.character_name)
        self.turn(kind, text)
        _write("\n\n")

    def turn(self, kind: TurnKind, text: str = "", *, silent: bool = False) -> str | None:
        """Run a turn and show the reply as it arrives; return it, or None if there is none."""
        from tavernkit.cli.terminal import complain
        from tavernkit.conversation import StoreError
        from tavernkit.errors import MaxTokensExceededError
        from tavernkit.models import ModelError
        from tavernkit.risu_ai import RequestFailedError

        self.turns += 1
        self.stopped = False
        shown: list[str] = []
        try:
            for piece in self.chat.stream(text, kind=kind):
                shown.append(piece.text)
                if not silent:
                    _write(piece.text)
        except KeyboardInterrupt:
            self.stopped = True
            _write("\n")
            complain("stopped; the partial reply is kept. Press Ctrl+C again to quit", kind="note")
            return None
        except (ModelError, MaxTokensExceededError, RequestFailedError, StoreError) as error:
            self.failed += 1
            _write("\n" if any(shown) else "")
            kept = "the partial reply is kept" if any(shown) else "your message is kept, /regenerate asks again"
            complain(f"{error} ({self.session.address}); {kept}", kind="error")
            return None
        last = self.chat.last
        reply = last.text if last is not None else ""
        if not silent and reply.strip() != "".join(shown).strip():
            _write(f"\n= {reply}")  # after scripts and clean-up
        return reply

    @property
    def in_group(self) -> bool:
        """True if several characters take part."""
        from tavernkit.risu_ai import Chat as RisuAIChat
        from tavernkit.silly_tavern import Chat as SillyTavernChat

        chat = self.chat.conversation.chat
        if isinstance(chat, RisuAIChat):
            return chat.character.is_group
        return isinstance(chat, SillyTavernChat) and chat.state.context().group is not None

    def show_line(self, line: Mapping[str, object]) -> None:
        """Show a line of the chat and who said it."""
        _speaker(self.name_of(line))
        _write(_text(line) + "\n\n")

    def name_of(self, line: Mapping[str, object]) -> str:
        """Return who said a line."""
        from tavernkit.risu_ai import Chat as RisuAIChat

        name = line.get("name")
        if isinstance(name, str) and name:
            return name
        if _is_user(line):
            return self.session.user_name
        chat = self.chat.conversation.chat
        members = chat.members if isinstance(chat, RisuAIChat) else ()
        return next((each.name for each in members if each.id == line.get("saying")), self.session.character_name)

    def versions(self) -> tuple[int, int]:
        """Return which version of the last reply is shown, from 1, and how many there are."""
        from tavernkit.risu_ai import Chat as RisuAIChat

        chat = self.chat.conversation.chat
        if isinstance(chat, RisuAIChat):
            return chat.rerolls.position + 1, len(chat.rerolls.tails)
        last: Mapping[str, object] = self.chat.lines[-1] if self.chat.lines else {}
        at, swipes = last.get("swipe_id"), last.get("swipes")
        return (at + 1 if isinstance(at, int) else 1), len(swipes) if is_sequence(swipes) else 1


def _swipe(talk: _Talk, _: str) -> None:
    at, count = talk.versions()
    if at < count:
        _move(talk, "right")
    else:
        talk.reply("swipe")


def _move(talk: _Talk, direction: Literal["left", "right"]) -> None:
    from tavernkit.cli.terminal import show

    at, count = talk.versions()
    if count < 2 or (direction == "right" and at >= count):
        show("There is only one version." if count < 2 else "This is the newest version; /swipe asks for another.")
        return
    text = talk.chat.swipe(direction).text
    at, count = talk.versions()
    show(f"[{at}/{count}] {text}")


def _continue(talk: _Talk, text: str) -> None:
    talk.reply("continue", text)


def _impersonate(talk: _Talk, _: str) -> None:
    _speaker(talk.session.user_name)
    talk.draft = talk.turn("impersonate") or ""
    _write("\n\n")


def _edit(talk: _Talk, rest: str) -> None:
    index, text = _split_number(rest)
    if not text:
        _say("Give the new text: /edit TEXT, or /edit NUMBER TEXT; /lines has the numbers.")
        return
    talk.chat.edit(index, text)
    _say("Edited.")


def _lines(talk: _Talk, _: str) -> None:
    for number, line in enumerate(talk.chat.lines):
        text = " ".join(_text(line).split())
        hidden = " (hidden)" if line.get("is_system") or line.get("disabled") else ""
        _say(f"{number:>4} {talk.name_of(line)}{hidden}: {text[:_SHOWN]}{'…' * (len(text) > _SHOWN)}")


def _undo(talk: _Talk, _: str) -> None:
    _say("Taken back." if talk.chat.undo() else "There is nothing to take back.")


def _branch(talk: _Talk, rest: str) -> None:
    index, _ = _split_number(rest)
    branch = talk.chat.branch(index)
    branch.last = talk.chat.last  # for /explain and /why: what was sent before the branch
    talk.chat.adopt(branch)
    _save(talk, "")


def _speak(talk: _Talk, name: str) -> None:
    if not talk.in_group:
        _say("This is not a group.")
    else:
        talk.reply("speak", name)


def _save(talk: _Talk, name: str) -> None:
    from tavernkit.cli.terminal import show_line
    from tavernkit.conversation import FileStore
    from tavernkit.conversation._formats import saved_chat

    store = talk.chat.conversation.store
    if name:
        if Path(name).exists():
            _say(f"{name} already exists.")
            return
        store = FileStore(name)
        store.save(saved_chat(talk.chat.conversation.chat))
    show_line(f"The chat is saved in {getattr(store, 'path', '')}.")


def _explain(talk: _Talk, _: str) -> None:
    from tavernkit.cli.terminal import show
    from tavernkit.cli.views import plan_view
    from tavernkit.report import overview

    plan = talk.chat.last.plan if talk.chat.last is not None else None
    if plan is None:
        show("Nothing was sent yet.")
        return
    view = overview(plan)
    left_out = plan_view.left_out_table(view)
    show(plan_view.plan_table(view), "", plan_view.token_bar(view), *(["", left_out] if left_out is not None else []))


def _why(talk: _Talk, wanted: str) -> None:
    from tavernkit.cli.terminal import show
    from tavernkit.cli.views import plan_view
    from tavernkit.report import lore_rows

    plan = talk.chat.last.plan if talk.chat.last is not None else None
    if plan is None:
        show("Nothing was sent yet.")
        return
    rows = lore_rows(plan.lore_result)
    chosen = [row for row in rows if wanted.lower() in f"{row.title} {row.id} {' '.join(row.keys)}".lower()]
    show(plan_view.lore_table(chosen) if chosen else f"There is no lore entry like {wanted!r}.")


_ACTIONS: dict[str, Callable[[_Talk, str], None]] = {
    "/swipe": _swipe,
    "/left": lambda talk, _: _move(talk, "left"),
    "/right": lambda talk, _: _move(talk, "right"),
    "/regenerate": lambda talk, _: talk.reply("regenerate"),
    "/continue": _continue,
    "/impersonate": _impersonate,
    "/edit": _edit,
    "/lines": _lines,
    "/undo": _undo,
    "/branch": _branch,
    "/speak": _speak,
    "/explain": _explain,
    "/why": _why,
    "/save": _save,
    "/help": lambda _talk, _: _say(HELP),
}

_SHOWN = 100
"""How many characters of a line a list shows."""


def _split_number(rest: str) -> tuple[int, str]:
    """Split a line's number from a text; the default is the last line."""
    number, _, text = rest.partition(" ")
    return (int(number), text.strip()) if number.removeprefix("-").isdecimal() else (-1, rest)


def _text(line: Mapping[str, object]) -> str:
    return str(line.get("mes", line.get("data", "")))


def _is_user(line: Mapping[str, object]) -> bool:
    return bool(line.get("is_user")) or line.get("role") == "user"


@contextmanager
def _prefill(text: str) -> Generator[None]:
    """Let the user edit a text, if the terminal supports it."""
    readline = _readline() if text and sys.stdin.isatty() else None
    if readline is None:
        yield
        return
    readline.set_startup_hook(lambda: readline.insert_text(text.replace("\n", " ")))
    try:
        yield
    finally:
        readline.set_startup_hook()


def _readline() -> ModuleType | None:
    try:
        return importlib.import_module("readline")
    except ImportError:  # Windows has none
        return None


def _say(text: str) -> None:
    from tavernkit.cli.terminal import show

    show(text)


def _speaker(name: str) -> None:
    from rich.text import Text

    from tavernkit.cli.terminal import console, visible

    console().print(Text(f"{visible(name)}> ", style="bold"), end="")
    sys.stdout.flush()


def _write(text: str) -> None:
    from tavernkit.cli.terminal import show_piece

    show_piece(text)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("chat")(chat)
