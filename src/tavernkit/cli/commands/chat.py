"""``tavernkit chat``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit._dataclass import dataclass
from tavernkit.cli.build_options import FILES, LIMITS, TEXT, BuildOptions
from tavernkit.cli.files import STDIN, naming
from tavernkit.cli.options import ModelOptions, Platform, takes

if TYPE_CHECKING:
    from tavernkit._turns import Chat
    from tavernkit.cli.inputs import Prepared
    from tavernkit.conversation import BlockingConversation, ConversationStore
    from tavernkit.conversation._opening import Materials

SUFFIXES = {Platform.SILLY_TAVERN: ".jsonl", Platform.RISU_AI: ".json"}


@dataclass(frozen=True, kw_only=True)
class ChatOptions(ModelOptions, BuildOptions):
    """The options of a chat: the inputs of prompts, and a model, which also decides how tokens are counted."""

    chat: Annotated[
        str | None,
        typer.Option(
            "--chat",
            "-c",
            metavar="FILE",
            help="Chat file to continue: SillyTavern's JSONL or RisuAI's JSON. With --from-…, the chat's name.",
            rich_help_panel=FILES,
        ),
    ] = None
    dialect: Annotated[
        str,
        typer.Option(
            "--dialect",
            "-d",
            metavar="NAME",
            help="openai, or text for models without chat.",
            rich_help_panel=LIMITS,
        ),
    ] = "openai"


@takes(ChatOptions, without=("message", "generation_type"))
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
            "--say",
            "--message",
            "-m",
            help="Send this message and exit, instead of reading from the terminal; may be repeated.",
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
    from tavernkit.cli.talk import Talk

    session = open_session(options, save)
    with session.chat:
        talk = Talk(session)
        code = talk.say(say, as_json=as_json) if say else talk.ask()
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation and its participants."""

    chat: BlockingConversation
    path: Path
    character_name: str
    user_name: str
    address: str
    """The address of the model."""


def open_session(options: ChatOptions, save: Path | None) -> Session:
    """Open the chat that the options select.

    Args:
        options: The options.
        save: The file to save to, if not the chat's own.
    """
    from tavernkit.conversation import Conversation
    from tavernkit.conversation._opening import Materials
    from tavernkit.errors import log_warning

    if options.dialect not in ("openai", TEXT):
        raise typer.BadParameter(
            "the model decides its own dialect here: leave out --dialect, or use --dialect text for text completion"
        )
    suffix = SUFFIXES[options.chosen_platform]
    if save is not None and save.suffix.lower() != suffix:
        raise typer.BadParameter(f"--save {save}: chats of {options.chosen_platform.value} end in {suffix}")
    if options.chat == STDIN:
        raise typer.BadParameter("--chat names the file in which the chat continues: it cannot be stdin")
    model = options.connect(text=options.dialect == TEXT)
    address = options.address
    options = dataclasses.replace(options, model=options.model_name)  # what prompts are built for
    given = Materials(model=model, greeting=options.greeting, warn=log_warning)
    if options.from_sillytavern is not None:
        chat, store, prepared = _folder_chat(options, given, save)
    else:
        chat, store, prepared = _file_chat(options, given, save)
    talk = Conversation(chat, model=model, store=store, undo=given.undo).blocking()
    path = Path(str(getattr(store, "path", "")))
    return Session(talk, path, prepared.character_name, prepared.user_name, address)


def _folder_chat(options: ChatOptions, given: Materials, save: Path | None) -> tuple[Chat, ConversationStore, Prepared]:
    """Open a chat of SillyTavern's data folder; it is saved there unless another file is given."""
    from tavernkit.cli.inputs import prepare
    from tavernkit.conversation import FileStore
    from tavernkit.conversation._installations import find_chat, open_folder_chat
    from tavernkit.silly_tavern import Builder, DataFolder

    assert options.from_sillytavern is not None
    folder = DataFolder(options.from_sillytavern)
    character = options.character or (options.card.name if options.card is not None else None)
    place = find_chat(folder, character, options.chat, group=options.group)
    prepared = prepare(
        dataclasses.replace(options, character=place.avatar, chat=place.stored_name, group=place.group, card=None)
    )
    store = FileStore(save) if save is not None else None
    assert isinstance(prepared.builder, Builder)
    chat, chosen = open_folder_chat(place, given, store=store, builder=prepared.builder)
    return chat, chosen, prepared


def _file_chat(options: ChatOptions, given: Materials, save: Path | None) -> tuple[Chat, ConversationStore, Prepared]:
    from tavernkit.cli.input_files import refuse_mistaken
    from tavernkit.cli.inputs import prepare
    from tavernkit.conversation import FileStore, SavedChat
    from tavernkit.conversation._installations import begin_with
    from tavernkit.conversation._opening import risu_ai_chat, silly_tavern_chat
    from tavernkit.conversation._stores import free_path
    from tavernkit.silly_tavern import Builder

    suffix = SUFFIXES[options.chosen_platform]
    named = options.chat is not None and options.from_risuai is None
    own = Path(options.chat) if named and options.chat is not None else None
    if save is None and own is not None and own.suffix.lower() != suffix:
        refuse_mistaken(options)
        raise typer.BadParameter(f"{own} is not in the format of {options.chosen_platform.value}: name one with --save")
    if save is not None and save.exists():  # it continues there
        options = options if options.from_risuai is not None else dataclasses.replace(options, chat=None)
    prepared = prepare(options)
    path = save or own or free_path(Path(f"chat{suffix}"), prepared.character_name)
    store = FileStore(path)
    with naming(path):
        if isinstance(prepared.builder, Builder):
            if own is not None and own != path and not path.exists():
                begin_with(store, SavedChat(file=own.read_bytes()))
            return silly_tavern_chat(store, path.stem, {}, given, builder=prepared.builder), store, prepared
        return risu_ai_chat(store, path.stem, prepared.risu_inputs or {}, given), store, prepared


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("chat")(chat)
