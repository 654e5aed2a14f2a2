"""``tavernkit chat``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.build_options import BuildOptions
from tavernkit.cli.model_options import ModelOptions
from tavernkit.cli.option_groups import takes
from tavernkit.cli.platforms import Platform

if TYPE_CHECKING:
    from tavernkit.cli.chat_session import ChatSession

HELP = """\
/explain       where the last prompt came from
/why ENTRY     why a lore entry was in it or not
/swipe         another version of the last reply
/left /right   the version before or after
/undo          take back the last exchange
/file          where the chat is saved
/help          this list
/quit          end"""


@dataclass(frozen=True, kw_only=True)
class ChatOptions(ModelOptions, BuildOptions):
    """What a chat needs: what prompts are built from, and a model, which also decides how tokens are counted."""


@takes(ChatOptions)
def chat(
    options: ChatOptions,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Where to save (default: the chat's own file, or a new NAME.jsonl here)."),
    ] = None,
    say: Annotated[
        list[str] | None, typer.Option("--say", help="Say this and end, instead of asking; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --say: print the replies as JSON.")] = False,
) -> None:
    r"""Talk to a character in the terminal. Chats are saved in SillyTavern's JSONL.

    The key of the endpoint is read from TAVERNKIT_API_KEY. In the chat, /help lists what else can be done.

    \b
    tavernkit chat aria.png --base-url http://localhost:8000 --model my-model --book world.json
    tavernkit chat aria.png --base-url scripted
    tavernkit chat aria.png --base-url scripted --say "Who are you?" --json
    """
    from tavernkit.cli.terminal import show_report

    session = _session(options, save)
    if not say:
        _talk(session)
        return
    replies: list[str] = []
    for line in say:
        replies.append(session.send(line, _silent if as_json else _write))
        if not as_json:
            _write("\n")
    if as_json:
        show_report({"replies": replies, "file": str(session.path)})


def _session(options: ChatOptions, save: Path | None) -> ChatSession:
    from tavernkit.cli.chat_session import ChatSession, utc_now
    from tavernkit.cli.files import STDIN, load_card
    from tavernkit.cli.inputs import fixed_clock, new_chat, prepare
    from tavernkit.silly_tavern import ChatFile

    if options.chosen_platform is not Platform.SILLY_TAVERN:
        raise typer.BadParameter("chat is for --platform silly_tavern: its chats are saved in SillyTavern's format")
    if options.card is None or options.from_sillytavern is not None:
        raise typer.BadParameter("give a character card; chats inside an installation are left alone")
    if options.dialect != "openai":
        raise typer.BadParameter("chat speaks to OpenAI-compatible endpoints only: leave out --dialect")
    if options.chat == STDIN:
        raise typer.BadParameter("--chat names the file that the chat goes on in: it cannot be stdin")
    path = save or (Path(options.chat) if options.chat is not None else None)
    if path is not None and path.exists():
        history = ChatFile.load(path)
    elif options.chat is not None:
        history = ChatFile.load(options.chat)
    else:
        history = new_chat(load_card(options.card), options.user or "User", options.greeting)
    prepared = prepare(options)
    return ChatSession(
        build=prepared.build,
        model=options.connect(),
        character_name=prepared.character_name,
        user_name=prepared.user_name,
        chat=history,
        path=path or _free_path(prepared.character_name),
        clock=fixed_clock(options.now) if options.now is not None else utc_now,
    )


def _free_path(name: str) -> Path:
    """A file of its own for a new chat: those that are there are other chats."""
    from tavernkit.cards.silly_tavern.names import sanitize

    stem = sanitize(name) or "chat"
    path, number = Path(f"{stem}.jsonl"), 2
    while path.exists():
        path, number = Path(f"{stem} {number}.jsonl"), number + 1
    return path


def _talk(session: ChatSession) -> None:
    from tavernkit.cli.terminal import complain, show, show_text, visible
    from tavernkit.errors import MaxTokensExceededError
    from tavernkit.models import ModelError

    show(f"Talking to {session.character_name}. /help lists commands, /quit ends.")
    # As it is: a path must not be broken.
    show_text(f"The chat is saved in {session.path}; --chat goes on with it.\n")
    for message in session.chat.messages[-4:]:
        _speaker(message.name)
        _write(message.mes + "\n\n")
    while True:
        try:
            line = input(f"{visible(session.user_name)}> ").strip()
        except EOFError:
            return
        if line in ("/quit", "/exit"):
            return
        try:
            if line.startswith("/"):
                _command(session, line)
            elif line:
                _speaker(session.character_name)
                session.send(line, _write)
                _write("\n\n")
        except (ModelError, MaxTokensExceededError) as error:
            _write("\n")
            complain(f"{error}; nothing was added to the chat", kind="error")


def _command(session: ChatSession, line: str) -> None:
    from tavernkit.cli.terminal import complain

    name, _, rest = line.partition(" ")
    action = _ACTIONS.get(name)
    if action is None:
        complain(f"there is no {name}; /help lists what there is", kind="note")
    else:
        action(session, rest.strip())


def _explain(session: ChatSession, _: str) -> None:
    from tavernkit.cli.terminal import show
    from tavernkit.cli.views import plan_view
    from tavernkit.report import overview

    if session.plan is None:
        show("Nothing was sent yet.")
        return
    view = overview(session.plan)
    left_out = plan_view.left_out_table(view)
    show(plan_view.plan_table(view), "", plan_view.token_bar(view), *(["", left_out] if left_out is not None else []))


def _why(session: ChatSession, wanted: str) -> None:
    from tavernkit.cli.terminal import show
    from tavernkit.cli.views import plan_view
    from tavernkit.report import lore_rows

    if session.plan is None:
        show("Nothing was sent yet.")
        return
    rows = lore_rows(session.plan.lore_result)
    chosen = [row for row in rows if wanted.lower() in f"{row.title} {row.id} {' '.join(row.keys)}".lower()]
    show(plan_view.lore_table(chosen) if chosen else f"There is no lore entry like {wanted!r}.")


def _swipe(session: ChatSession, _: str) -> None:
    from tavernkit.cli.terminal import show

    _speaker(session.character_name)
    if session.swipe(_write) is None:
        show("There is no reply to swipe.")
    _write("\n\n")


def _turn(step: int) -> Callable[[ChatSession, str], None]:
    def turn(session: ChatSession, _: str) -> None:
        from tavernkit.cli.terminal import show

        found = session.turn_swipe(step)
        show("There is only one version." if found is None else f"[{found[1]}/{found[2]}] {found[0]}")

    return turn


def _undo(session: ChatSession, _: str) -> None:
    from tavernkit.cli.terminal import show

    show("Taken back." if session.undo() else "There is nothing to take back.")


def _file(session: ChatSession, _: str) -> None:
    from tavernkit.cli.terminal import show

    show(str(session.path))


def _help(_session: ChatSession, _: str) -> None:
    from tavernkit.cli.terminal import show

    show(HELP)


_ACTIONS: dict[str, Callable[[ChatSession, str], None]] = {
    "/explain": _explain,
    "/why": _why,
    "/swipe": _swipe,
    "/left": _turn(-1),
    "/right": _turn(1),
    "/undo": _undo,
    "/file": _file,
    "/help": _help,
}


def _speaker(name: str) -> None:
    from rich.text import Text

    from tavernkit.cli.terminal import console, visible

    console().print(Text(f"{visible(name)}> ", style="bold"), end="")
    sys.stdout.flush()


def _write(text: str) -> None:
    from tavernkit.cli.terminal import show_piece

    show_piece(text)


def _silent(_: str) -> None:
    """Say nothing."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("chat")(chat)
