"""A chat in the terminal: what the user types, the model's replies, and the commands that begin with a slash."""

from __future__ import annotations

import importlib
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from tavernkit._values import is_sequence
from tavernkit.cli.process import ExitCode
from tavernkit.cli.terminal import complain, console, show, show_line, show_piece, show_report, visible
from tavernkit.conversation import FileStore, StoreError
from tavernkit.conversation._formats import saved_chat
from tavernkit.errors import MaxTokensExceededError, TavernKitError
from tavernkit.models import ModelError
from tavernkit.risu_ai import Chat as RisuAIChat
from tavernkit.risu_ai import RequestFailedError
from tavernkit.silly_tavern import Chat as SillyTavernChat

if TYPE_CHECKING:
    from tavernkit._turns import TurnKind
    from tavernkit.cli.commands.chat import Session

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

AGAIN_SECONDS = 0.1
"""How long to wait before an unnoticed Ctrl+C is sent again."""
MAX_SIGNALS = 50

SHOWN_LENGTH = 100
"""How many characters of a line a list shows."""


class Talk:
    """A conversation in a terminal."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.chat = session.chat
        self.turns = 0
        self.failed = 0
        self.stopped = False
        """True if the user stopped the last reply."""
        self.unsaved = False
        """True if the chat could not be saved."""
        self.asking = False
        """True if the user can type commands."""
        self.draft = ""
        """The text that the next input line starts with."""

    def say(self, texts: list[str], *, as_json: bool) -> int:
        """Say some lines and return the exit code."""
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
                show_piece("\n")
        if as_json:
            show_report({"replies": replies, "file": str(self.session.path)})
        if self.failed:
            return ExitCode.MODEL if self.failed == self.turns else ExitCode.PROBLEMS
        return ExitCode.OK

    def ask(self) -> int:
        """Let the user type until they leave, and return the exit code."""
        session = self.session
        self.asking = True
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
        if self.unsaved:
            return ExitCode.USAGE
        return ExitCode.MODEL if self.turns and self.failed == self.turns else ExitCode.OK

    def command(self, line: str) -> None:
        """Run a command line that begins with a slash."""
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
        show_piece("\n\n")

    def turn(self, kind: TurnKind, text: str = "", *, silent: bool = False) -> str | None:
        """Run a turn and show the reply as it arrives; return it, or None if there is none."""
        self.turns += 1
        self.stopped = False
        shown: list[str] = []
        try:
            for piece in self.chat.stream(text, kind=kind):
                shown.append(piece.text)
                if not silent:
                    show_piece(piece.text)
        except KeyboardInterrupt:
            self.stopped = True
            show_piece("\n")
            complain("stopped; the partial reply is kept. Press Ctrl+C again to quit", kind="note")
            return None
        except StoreError as error:
            if not self.asking:
                raise
            self.unsaved = True
            complain(f"{error}; the next message saves what is missing", kind="error")
            return None
        except (ModelError, MaxTokensExceededError, RequestFailedError) as error:
            self.failed += 1
            show_piece("\n" if any(shown) else "")
            kept = "the partial reply is kept" if any(shown) else "your message is kept"
            if self.asking and not any(shown):
                kept += ", /regenerate asks again"
            complain(f"{error} ({self.session.address}); {kept}", kind="error")
            return None
        self.unsaved = False
        last = self.chat.last
        reply = last.text if last is not None else ""
        if not silent and reply.strip() != "".join(shown).strip():
            show_piece(f"\n= {reply}")  # after scripts and clean-up
        return reply

    @property
    def in_group(self) -> bool:
        """True if several characters take part."""
        chat = self.chat.chat
        if isinstance(chat, RisuAIChat):
            return chat.character.is_group
        return isinstance(chat, SillyTavernChat) and chat.state.context().group is not None

    def show_line(self, line: Mapping[str, object]) -> None:
        """Show a line of the chat and who said it."""
        _speaker(self.name_of(line))
        show_piece(_text(line) + "\n\n")

    def name_of(self, line: Mapping[str, object]) -> str:
        """Return who said a line."""
        name = line.get("name")
        if isinstance(name, str) and name:
            return name
        if _is_user(line):
            return self.session.user_name
        chat = self.chat.chat
        members = chat.members if isinstance(chat, RisuAIChat) else ()
        return next((each.name for each in members if each.id == line.get("saying")), self.session.character_name)

    def versions(self) -> tuple[int, int]:
        """Return which version of the last reply is shown, from 1, and how many there are."""
        chat = self.chat.chat
        if isinstance(chat, RisuAIChat):
            return chat.rerolls.position + 1, len(chat.rerolls.tails)
        last: Mapping[str, object] = self.chat.lines[-1] if self.chat.lines else {}
        at, swipes = last.get("swipe_id"), last.get("swipes")
        return (at + 1 if isinstance(at, int) else 1), len(swipes) if is_sequence(swipes) else 1


def _swipe(talk: Talk, _: str) -> None:
    at, count = talk.versions()
    if at < count:
        _move(talk, "right")
    else:
        talk.reply("swipe")


def _move(talk: Talk, direction: Literal["left", "right"]) -> None:
    at, count = talk.versions()
    if count < 2 or (direction == "right" and at >= count):
        show("There is only one version." if count < 2 else "This is the newest version; /swipe asks for another.")
        return
    text = talk.chat.swipe(direction).text
    at, count = talk.versions()
    show(f"[{at}/{count}] {text}")


def _continue(talk: Talk, text: str) -> None:
    talk.reply("continue", text)


def _impersonate(talk: Talk, _: str) -> None:
    _speaker(talk.session.user_name)
    talk.draft = talk.turn("impersonate") or ""
    show_piece("\n\n")


def _edit(talk: Talk, rest: str) -> None:
    index, text = _split_number(rest)
    if not text:
        show("Give the new text: /edit TEXT, or /edit NUMBER TEXT; /lines has the numbers.")
        return
    talk.chat.edit(index, text)
    show("Edited.")


def _lines(talk: Talk, _: str) -> None:
    for number, line in enumerate(talk.chat.lines):
        text = " ".join(_text(line).split())
        hidden = " (hidden)" if line.get("is_system") or line.get("disabled") else ""
        show(f"{number:>4} {talk.name_of(line)}{hidden}: {text[:SHOWN_LENGTH]}{'…' * (len(text) > SHOWN_LENGTH)}")


def _undo(talk: Talk, _: str) -> None:
    show("Taken back." if talk.chat.undo() else "There is nothing to take back.")


def _branch(talk: Talk, rest: str) -> None:
    index, _ = _split_number(rest)
    branch = talk.chat.branch(index)
    branch.last = talk.chat.last  # for /explain and /why: what was sent before the branch
    talk.chat.adopt(branch)
    _save(talk, "")


def _speak(talk: Talk, name: str) -> None:
    if not talk.in_group:
        show("This is not a group.")
    else:
        talk.reply("speak", name)


def _save(talk: Talk, name: str) -> None:
    store = talk.chat.conversation.store
    if name:
        if Path(name).exists():
            show(f"{name} already exists.")
            return
        store = FileStore(name)
        store.save(saved_chat(talk.chat.chat))
    show_line(f"The chat is saved in {getattr(store, 'path', '')}.")


def _explain(talk: Talk, _: str) -> None:
    from tavernkit.cli import views
    from tavernkit.report import overview

    plan = talk.chat.last.plan if talk.chat.last is not None else None
    if plan is None:
        show("Nothing was sent yet.")
        return
    view = overview(plan)
    left_out = views.left_out_table(view)
    show(views.plan_table(view), "", views.token_bar(view), *(["", left_out] if left_out is not None else []))


def _why(talk: Talk, wanted: str) -> None:
    from tavernkit.cli import views
    from tavernkit.report import lore_rows

    plan = talk.chat.last.plan if talk.chat.last is not None else None
    if plan is None:
        show("Nothing was sent yet.")
        return
    rows = lore_rows(plan.lore_result)
    chosen = [row for row in rows if wanted.lower() in f"{row.title} {row.id} {' '.join(row.keys)}".lower()]
    show(views.lore_table(chosen) if chosen else f"There is no lore entry like {wanted!r}.")


_ACTIONS: dict[str, Callable[[Talk, str], None]] = {
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
    "/help": lambda _talk, _: show(HELP),
}


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


def _speaker(name: str) -> None:
    console().print(Text(f"{visible(name)}> ", style="bold"), end="")
    sys.stdout.flush()


@contextmanager
def interruptible_input() -> Generator[None]:
    """Let Ctrl+C interrupt keyboard input at once.

    A signal that arrives just before ``input`` starts waiting does not wake it up, and would be noticed only with the
    next line. So a thread repeats the signal until it is noticed.
    """
    known = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not known or not hasattr(signal, "pthread_kill") or threading.current_thread() is not threading.main_thread():
        yield
        return
    noticed = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    watcher = threading.Thread(
        target=_send_again, args=(reader, threading.get_ident(), noticed), name="tavernkit-interrupts", daemon=True
    )

    def raise_interrupt(number: int, frame: FrameType | None) -> None:
        noticed.set()
        signal.default_int_handler(number, frame)

    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, raise_interrupt)
    watcher.start()
    try:
        yield
    finally:
        noticed.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(before)
        writer.close()
        watcher.join()
        reader.close()


def _send_again(reader: socket.socket, thread: int, noticed: threading.Event) -> None:
    select.select([reader], [], [])
    if reader.recv(1) != bytes([signal.SIGINT]):
        return  # the prompt is over
    for _ in range(MAX_SIGNALS):
        if noticed.wait(AGAIN_SECONDS):
            return
        signal.pthread_kill(thread, signal.SIGINT)
