"""Makes a builder from files and options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from tavernkit._dataclass import dataclass
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cli.build_options import TEXT, BuildOptions
from tavernkit.cli.files import STDIN, load_card, naming, read_bytes, readable, shown
from tavernkit.cli.input_files import load_lorebook, load_world, read_save, refuse_mistaken
from tavernkit.cli.options import Platform
from tavernkit.errors import WarningLog, log_warning
from tavernkit.prompt._inputs import CommonInputs, GenerationType, OnOverflow
from tavernkit.prompt._plan import Plan

if TYPE_CHECKING:
    from tavernkit.cards import Bundle
    from tavernkit.risu_ai import Builder as RisuAIBuilder
    from tavernkit.risu_ai import HistoryInput, RegexScript, RisuAIInputs, RisuModule
    from tavernkit.risu_ai._files.preset import Preset as RisuPreset
    from tavernkit.silly_tavern import Builder as SillyTavernBuilder
    from tavernkit.silly_tavern import ChatFile, DataFolder, Preset, RegexScripts, SillyTavernInputs


@dataclass(frozen=True, slots=True)
class Prepared:
    """A builder with everything except this turn; ``build`` takes the rest (``history``, ``message``, …)."""

    platform: Platform
    character_name: str
    user_name: str
    build: Callable[..., Plan]
    builder: SillyTavernBuilder | RisuAIBuilder
    risu_inputs: RisuAIInputs | None = None
    """The inputs of RisuAI's builder."""


def prepare(options: BuildOptions, *, quiet: bool = True) -> Prepared:
    """Read the files of a command; warnings of builds end up in the plan, so they are logged too unless ``quiet``."""
    options.refuse_misplaced()
    refuse_mistaken(options)
    if options.chosen_platform is Platform.RISU_AI:
        return _risu_ai(options, quiet)
    return _silly_tavern(options, quiet)


def build_plan(options: BuildOptions, **inputs: object) -> Plan:
    """Build the prompt of a command."""
    return prepare(options).build(**inputs)


def _common(options: BuildOptions, quiet: bool) -> CommonInputs:
    inputs: CommonInputs = {
        "message": options.message,
        "generation_type": cast("GenerationType", options.generation_type),
        "strict": options.strict,
    }
    if quiet:
        inputs["warn"] = None
    if options.seed is not None:
        inputs["seed"] = options.seed
    if options.now is not None:
        inputs["clock"] = fixed_clock(options.now)
    if options.model is not None:
        inputs["model_hint"] = options.model
    return inputs


def fixed_clock(moment: datetime) -> Callable[[], datetime]:
    """Return a stopped clock; a time without a zone is UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return lambda: aware


def _card_path(options: BuildOptions) -> Path:
    if options.card is None:
        raise typer.BadParameter("name a character card, or use --from-sillytavern DIR --character NAME")
    return options.card


def _silly_tavern(options: BuildOptions, quiet: bool) -> Prepared:
    from tavernkit import silly_tavern as st
    from tavernkit.cards import User

    inputs: st.SillyTavernInputs = {**_common(options, quiet), "on_overflow": cast("OnOverflow", options.on_overflow)}
    if options.speaker is not None:
        inputs["speaker"] = options.speaker
    if options.from_sillytavern is not None:
        from tavernkit.conversation._installations import listed

        folder = st.DataFolder(options.from_sillytavern)
        if options.character is None and options.group is None and options.card is None:
            raise typer.BadParameter(f"choose --character from {listed(folder.characters())}, or a --group")
        name = _character(folder, options.character or (options.card.name if options.card is not None else None))
        group = None if options.group is None else _group(folder, options.group)
        chat = options.chat
        if name is not None and group is None:
            chat = _last_chat(folder, name) if chat is None else _stored_chat(folder, name, chat)
        builder = folder.builder(name, chat, group=group)
        preset = _folder_preset(folder, options)
        default_user = folder.persona(name, chat, group=group).name
        if chat is None and name is not None and group is None:
            bundle = load_card(folder.path / "characters" / folder.avatar(name), strict=options.strict)
            inputs["history"] = new_chat(bundle, options.greeting)
    else:
        bundle = load_card(_card_path(options), strict=options.strict)
        history = _silly_tavern_chat(options, bundle)
        builder = st.Builder(character=bundle.character, avatar=_card_path(options).name, history=history)
        preset = _preset(options)
        inputs["regex_scripts"] = _scripts(options, bundle, preset)
        default_user = _user_of(history) or "User"
    if options.book:
        extra = [load_world(path) for path in options.book]
        inputs["books"] = [*builder.make_context(warn=None).books, *extra]
    if options.user is not None or options.persona is not None or options.from_sillytavern is None:
        inputs["user"] = User(name=options.user or default_user, persona=options.persona or "")
    if options.persona is not None:
        inputs["persona"] = None  # the given text replaces the folder's persona
    inputs["preset"] = _with_limits(preset, options)
    if options.dialect == TEXT:
        inputs |= _text_inputs(options)
    ready = builder.replace(**inputs)
    character = ready.make_context().character_name
    return Prepared(Platform.SILLY_TAVERN, character, options.user or default_user, ready.build, ready)


def _character(folder: DataFolder, wanted: str | None) -> str | None:
    """Return the file of a character in an installation, by file or name."""
    from tavernkit.conversation._installations import find_character
    from tavernkit.errors import ConfigError

    try:
        return None if wanted is None else find_character(folder, wanted)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error


def _group(folder: DataFolder, wanted: str) -> str:
    """Return the id of a group in an installation, by id or name."""
    from tavernkit.conversation._installations import find_chat
    from tavernkit.errors import ConfigError

    try:
        return find_chat(folder, None, None, group=wanted).group or wanted
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error


def _last_chat(folder: DataFolder, character: str) -> str | None:
    """Return the chat that SillyTavern would open: the most recent one; None if there is none."""
    from tavernkit.conversation._installations import find_chat

    return find_chat(folder, character, None).stored_name


def _stored_chat(folder: DataFolder, character: str, wanted: str) -> str:
    """Return the name of a chat that an installation has; it may be spelled differently, as files are found."""
    from tavernkit.conversation._installations import listed
    from tavernkit.silly_tavern._files.folder_files import folded

    names = folder.chats(character)
    if folded(wanted.removesuffix(".jsonl")) not in map(folded, names):
        raise typer.BadParameter(f"{character} has no chat {wanted!r}: choose --chat from {listed(names)}")
    return wanted


def _silly_tavern_chat(options: BuildOptions, bundle: Bundle) -> ChatFile:
    from tavernkit.silly_tavern import ChatFile

    if options.chat is not None:
        with naming(Path(options.chat)):
            chat = ChatFile.load(readable(options.chat), strict=options.strict)
        if not chat.messages:
            log_warning(f"{shown(Path(options.chat))}: there is no message in it")
        return chat
    return new_chat(bundle, options.greeting)


def new_chat(bundle: Bundle, greeting: int) -> ChatFile:
    """Return a new chat with the chosen greeting. The build expands its macros, with the options' time and seed."""
    from tavernkit.silly_tavern import ChatFile, ChatMessage

    card = bundle.character
    greetings = _greetings(bundle, greeting)
    if greeting < 0 or not greetings[greeting]:
        return ChatFile()
    return ChatFile(messages=(ChatMessage(name=card.name, mes=greetings[greeting]),))


def _greetings(bundle: Bundle, wanted: int) -> list[str]:
    """Return all greetings of a card, which must include the requested one."""
    card = bundle.character
    greetings = [card.first_mes, *card.alternate_greetings]
    if wanted >= len(greetings):
        raise typer.BadParameter(f"{card.name} has {len(greetings)} greetings: --greeting is 0 to {len(greetings) - 1}")
    return greetings


def _user_of(history: ChatFile) -> str | None:
    spoken = (message.name for message in reversed(history.messages) if message.is_user)
    return next(spoken, None)


def scripts_of(options: BuildOptions) -> tuple[RegexScripts, str]:
    """Return the active regex scripts of a command, and the character's name."""
    bundle = load_card(_card_path(options))
    return _scripts(options, bundle, _preset(options)), bundle.character.name


def _scripts(options: BuildOptions, bundle: Bundle, preset: Preset) -> RegexScripts:
    """Return the given scripts, and those inside the files if they are allowed."""
    from tavernkit.cards._json_text import parse_json
    from tavernkit.silly_tavern import RegexScripts

    given: list[object] = []
    for path in options.regex_script or ():
        value = parse_json(read_bytes(path), what=shown(path), warn=log_warning)
        given += value if is_sequence(value) else [value]
    read = RegexScripts.from_settings(
        {"regex": given},
        card_data={"extensions": bundle.character.extensions},
        preset={"extensions": preset.extensions},
    )
    return replace(read, preset_allowed=options.allow_scripts, scoped_allowed=options.allow_scripts)


def _text_inputs(options: BuildOptions) -> SillyTavernInputs:
    """Return the inputs for text completion."""
    from tavernkit.silly_tavern import ContextTemplate, InstructTemplate, SystemPrompt

    found: SillyTavernInputs = {"dialect": TEXT}
    if options.context_template is not None:
        with naming(options.context_template):
            found["context_template"] = ContextTemplate.load(readable(options.context_template), strict=options.strict)
    if options.instruct is not None:
        with naming(options.instruct):
            instruct = InstructTemplate.load(readable(options.instruct), strict=options.strict)
            found["instruct"] = instruct.replace(enabled=True)
    if options.system_prompt is not None:
        with naming(options.system_prompt):
            system_prompt = SystemPrompt.load(readable(options.system_prompt), strict=options.strict)
        found["system_prompt"] = system_prompt.replace(enabled=True)
    if options.context_length is not None:
        found["context_length"] = options.context_length
    if options.response_length is not None:
        found["response_length"] = options.response_length
    return found


def _preset(options: BuildOptions) -> Preset:
    from tavernkit.silly_tavern import Preset

    if options.preset is None:
        return Preset.default()
    with naming(Path(options.preset)):
        return Preset.load(readable(options.preset), strict=options.strict)


def _folder_preset(folder: DataFolder, options: BuildOptions) -> Preset:
    from tavernkit.silly_tavern import Preset

    if options.preset is None:
        return folder.settings.preset
    path = Path(options.preset)
    if options.preset != STDIN and not path.is_file():
        return folder.preset(options.preset)
    with naming(path):
        return Preset.load(readable(path))


def _with_limits(preset: Preset, options: BuildOptions) -> Preset:
    changes: dict[str, object] = {}
    if options.context_length is not None:
        changes["openai_max_context"] = options.context_length
    if options.response_length is not None:
        changes["openai_max_tokens"] = options.response_length
    limited = preset.replace(**changes) if changes else preset
    return limited if options.model is None else limited.with_model(options.model)


def _risu_ai(options: BuildOptions, quiet: bool) -> Prepared:
    from tavernkit.cards import User
    from tavernkit.risu_ai import Builder

    inputs: RisuAIInputs = {**_common(options, quiet), "on_overflow": cast("OnOverflow", options.on_overflow)}
    if options.speaker is not None:
        inputs["speaker"] = options.speaker
    if options.from_risuai is not None:
        named = options.preset if options.preset != STDIN and not Path(options.preset or "").is_file() else None
        save = read_save(options.from_risuai, options.character, options.chat, preset=named, user=options.user)
        inputs |= save.inputs
        default_user, preset = save.settings.username, save.settings.preset
        if named is None and options.preset is not None:
            preset = load_risu_preset(options.preset)
        if save.has_persona and options.persona is None:
            options = replace(options, user=None)
    else:
        bundle = load_card(_card_path(options), strict=options.strict)
        inputs["character"] = bundle
        inputs["history"], speaker = _risu_history(options, bundle)
        if options.chat is None:
            inputs["greeting"] = options.greeting
        default_user = speaker or "User"
        preset = None if options.preset is None else load_risu_preset(options.preset)
    if options.user is not None or options.persona is not None or options.from_risuai is None:
        inputs["user"] = User(name=options.user or default_user, persona=options.persona or "")
    inputs["preset"] = _with_risu_limits(preset, options)
    inputs["modules"] = [_module(path) for path in options.module or ()]
    inputs["books"] = [load_lorebook(path) for path in options.book or ()]
    inputs["regex_scripts"] = [script for path in options.regex_script or () for script in _risu_scripts(path)]
    ready = Builder(**inputs)
    name = ready.make_context().owner.name
    return Prepared(Platform.RISU_AI, name, options.user or default_user, ready.build, ready, inputs)


def _risu_history(options: BuildOptions, bundle: Bundle) -> tuple[HistoryInput, str | None]:
    """Return the chat so far, and its user's name if known."""
    if options.chat is None:
        if options.greeting < 0:
            raise typer.BadParameter("RisuAI's prompts always have a greeting: --greeting is 0 or more")
        _greetings(bundle, options.greeting)
        return None, None
    from tavernkit.risu_ai._files.chat_file import ChatFile

    content = readable(options.chat)
    with naming(Path(options.chat)):
        return ChatFile.load(content), _silly_tavern_user(content)


def _silly_tavern_user(content: Path | bytes) -> str | None:
    """Return the user's name in a SillyTavern chat; RisuAI's chats do not have it."""
    from tavernkit.silly_tavern import ChatFile

    if isinstance(content, Path) and content.suffix.lower() != ".jsonl":
        return None
    return _user_of(ChatFile.load(content, warn=WarningLog()))


def load_risu_preset(path: str) -> RisuPreset:
    """Read a preset for RisuAI, SillyTavern's included."""
    from tavernkit.risu_ai._files.preset import Preset

    with naming(Path(path)):
        return Preset.load(readable(path))


def _with_risu_limits(preset: RisuPreset | None, options: BuildOptions) -> RisuPreset:
    from tavernkit.risu_ai._files.preset import Preset

    changes: dict[str, object] = {}
    if options.context_length is not None:
        changes["max_context"] = options.context_length
    if options.response_length is not None:
        changes["max_response"] = options.response_length
    if options.model is not None:
        changes["ai_model"] = options.model
    return (preset or Preset()).replace(**changes)


def _module(path: Path) -> RisuModule:
    from tavernkit.risu_ai._files.module_file import read_module

    with naming(path):
        return read_module(readable(path), name=path.stem, new_id=None)


def _risu_scripts(path: Path) -> list[RegexScript]:
    """Read RisuAI's export of regex scripts, a list of scripts, or one script."""
    from tavernkit.cards._json_text import parse_json
    from tavernkit.risu_ai import read_scripts

    value = parse_json(read_bytes(path), what=shown(path), warn=log_warning)
    single = is_mapping(value) and "in" in value
    return read_scripts([value] if single else value, shown(path), log_warning)
