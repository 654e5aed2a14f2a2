"""Makes inputs of builds from documents. Converted values are cached until their document changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from tavernkit._values import EMPTY_OBJECT, Json, JsonObject, LRUCache, freeze_object, is_list, is_mapping, is_object
from tavernkit.cards import DEFAULT_LIMITS, Character, Limits, User
from tavernkit.conversation._books import world_book
from tavernkit.errors import TavernKitError, WarningLog
from tavernkit.prompt._plan import Plan
from tavernkit.risu_ai import Builder as RisuAIBuilder
from tavernkit.risu_ai import Lorebook, RisuAIInputs
from tavernkit.risu_ai._files.card_import import risu_character
from tavernkit.risu_ai._files.chat_file import ChatFile as RisuChatFile
from tavernkit.risu_ai._files.kept_fields import group_of
from tavernkit.risu_ai._files.preset import Preset as RisuPreset
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat
from tavernkit.silly_tavern import Builder as SillyTavernBuilder
from tavernkit.silly_tavern import (
    ChatFile,
    ChatMessage,
    ContextTemplate,
    Group,
    InstructTemplate,
    MacroEngine,
    MacroEnvironment,
    Persona,
    Preset,
    RegexScripts,
    SillyTavernInputs,
    SystemPrompt,
    WorldBook,
)
from tavernkit.silly_tavern._files.chat_file import ChatMetadata
from tavernkit.studio._document import RISU_CHAT, WORLD_INFO, Document, file_content
from tavernkit.studio._turn import RISU_AI, TEXT, Turn, group_members, persona_of
from tavernkit.studio._workspace import State
from tavernkit.studio.errors import StudioError

T = TypeVar("T")

BOOK_SLOTS: Final = ("books", "character_books", "chat_books", "persona_books")


class Inputs:
    """Makes the inputs of builds, and builds. One builder per platform keeps compiled data."""

    def __init__(self, base: SillyTavernBuilder | None = None, *, limits: Limits = DEFAULT_LIMITS) -> None:
        """Make it.

        Args:
            base: A builder with inputs that are not documents, such as the settings of an installation.
            limits: Limits of builds.
        """
        self.base = base
        self._limits = limits
        self.silly_tavern_builder = base or SillyTavernBuilder()
        context = base.make_context(warn=None) if base is not None else None
        self._settings = context.settings if context is not None else None
        self._group = context.group if context is not None else None
        self._risu_ai_builder = RisuAIBuilder(character=RisuCharacter.from_json({"name": "nobody"}))
        self._made: LRUCache[tuple[str, str, int], tuple[Json, object]] = LRUCache(400)

    def build(self, state: State) -> Plan:
        """Build the prompt of the documents.

        Raises:
            TavernKitError: A document cannot be used, or the required parts of the prompt do not fit.
        """
        if Turn.of(state).platform == RISU_AI:
            return self._risu_ai_builder.replace(**self.risu_ai(state)).build()
        return self.silly_tavern_builder.build(**self.silly_tavern(state))

    def builder(self, state: State) -> SillyTavernBuilder | RisuAIBuilder:
        """Return a builder with all inputs."""
        if Turn.of(state).platform == RISU_AI:
            return self._risu_ai_builder.replace(**self.risu_ai(state))
        return self.silly_tavern_builder.replace(**self.silly_tavern(state))

    def silly_tavern(self, state: State) -> SillyTavernInputs:
        """Return inputs of SillyTavern's builder."""
        turn = Turn.of(state)
        card = self.character(state)
        inputs: SillyTavernInputs = {
            "character": card,
            "message": turn.message,
            "generation_type": turn.generation_type,
            "seed": turn.seed,
            "warn": None,
            "on_overflow": "error",
            "limits": self._limits,
            "history": self.silly_tavern_chat(state),
        }
        members = group_members(state)
        if members:
            cards = {_avatar(each): self._of(each, "character", _character) for each in members}
            names = ", ".join(each.name for each in cards.values())
            group = self._group or Group(id="group", name=f"Group: {names}")
            inputs |= {"members": cards, "group": group.replace(members=tuple(cards)), "character": None}
        else:
            document = state.one("card")
            if document is not None and document.path is not None:
                inputs["avatar"] = document.path.name
        for slot in BOOK_SLOTS:
            books = [self._world(each) for each in state.active_of("book") if (each.slot or "books") == slot]
            if books or slot == "books" or self.base is not None:
                inputs[slot] = books  # pyright: ignore[reportGeneralTypeIssues]  # the names of the inputs
        inputs |= self._persona(state)
        preset = self._preset(state, turn)
        inputs["preset"] = preset
        inputs["regex_scripts"] = self._scripts(state, card, preset, turn)
        if turn.speaker is not None:
            inputs["speaker"] = turn.speaker
        if turn.model is not None:
            inputs["model_hint"] = turn.model
        if turn.dialect == TEXT:
            inputs |= self._text_inputs(state, turn)
        elif self.base is not None:
            inputs["dialect"] = None
        return inputs

    def risu_ai(self, state: State) -> RisuAIInputs:
        """Return inputs of RisuAI's builder."""
        turn = Turn.of(state)
        persona = persona_of(state)
        inputs: RisuAIInputs = {
            "character": self._of(state.one("card"), "risu", self._risu_character),
            "history": self.risu_chat(state),
            "message": turn.message,
            "generation_type": turn.generation_type,
            "seed": turn.seed,
            "warn": None,
            "on_overflow": "error",
            "limits": self._limits,
            "user": User(name=persona.name, persona=persona.description),
            "books": [self._of(each, "lorebook", _lorebook) for each in state.active_of("book")],
            "preset": self._risu_preset(state, turn),
        }
        if turn.model is not None:
            inputs["model_hint"] = turn.model
        if turn.speaker is not None:
            inputs["speaker"] = turn.speaker
        members = [self._of(each, "risu", self._risu_character) for each in group_members(state)]
        if members:
            inputs |= {"members": members, "character": group_of(members)}
        return inputs

    def character(self, state: State) -> Character:
        """Return the active card."""
        return self._of(state.one("card"), "character", _character)

    def silly_tavern_chat(self, state: State) -> ChatFile:
        """Return the active chat; one without lines begins with the greeting that the turn names."""
        document = state.one("chat")
        assert document is not None
        if document.format == RISU_CHAT:
            chat = self._of(document, "chat", _chat_of_risu)
        else:
            chat = self._of(document, "chat", _chat)
        return chat if chat.messages else replace(chat, messages=self._greeting(state))

    def risu_chat(self, state: State) -> RisuChat:
        """Return the active chat as RisuAI's; one without lines begins with the greeting that the turn names."""
        document = state.one("chat")
        assert document is not None
        if document.format != RISU_CHAT:
            chat = self._of(document, "risu_chat", _risu_chat_of_lines)
        else:
            chat = self._of(document, "risu_chat", _risu_chat)
        if chat.messages:
            return chat
        return replace(chat, greeting_index=max(Turn.of(state).greeting, 0) - 1)

    def _greeting(self, state: State) -> tuple[ChatMessage, ...]:
        card, index = self.character(state), Turn.of(state).greeting
        greetings = [card.first_mes, *card.alternate_greetings]
        if not 0 <= index < len(greetings) or not greetings[index]:
            return ()
        environment = MacroEnvironment(user_name=persona_of(state).name, character_name=card.name)
        return (ChatMessage(name=card.name, mes=MacroEngine().expand(greetings[index], environment)),)

    def _persona(self, state: State) -> SillyTavernInputs:
        persona = persona_of(state)
        return {
            "user": User(name=persona.name, persona=persona.description),
            "persona": Persona(
                description=persona.description, position=persona.position, depth=persona.depth, role=persona.role
            ),
        }

    def _world(self, document: Document) -> WorldBook:
        return self._of(document, "world", _world)

    def _preset(self, state: State, turn: Turn) -> Preset:
        document = state.one("preset")
        preset = self._of(document, "preset", self._read_preset) if document is not None else Preset.default()
        changes: dict[str, object] = {}
        if turn.context_length is not None:
            changes["openai_max_context"] = turn.context_length
        if turn.response_length is not None:
            changes["openai_max_tokens"] = turn.response_length
        limited = preset.replace(**changes) if changes else preset
        return limited if turn.model is None else limited.with_model(turn.model)

    def _risu_preset(self, state: State, turn: Turn) -> RisuPreset:
        document = state.one("preset")
        preset = self._of(document, "risu_preset", _risu_preset) if document is not None else RisuPreset()
        changes: dict[str, object] = {}
        if turn.context_length is not None:
            changes["max_context"] = turn.context_length
        if turn.response_length is not None:
            changes["max_response"] = turn.response_length
        if turn.model is not None:
            changes["ai_model"] = turn.model
        return preset.replace(**changes) if changes else preset

    def _scripts(self, state: State, card: Character, preset: Preset, turn: Turn) -> RegexScripts:
        given: list[Json] = []
        for document in state.active_of("regex"):
            given += document.data if is_list(document.data) else [document.data]
        document, settings = state.one("card"), self._settings
        extensions = EMPTY_OBJECT if settings is None else settings.extension_settings
        read = RegexScripts.from_settings(
            {**extensions, "regex": given},
            card_data={"extensions": card.extensions},
            avatar=None if document is None else _avatar(document),
            preset={"extensions": preset.extensions},
            preset_name=preset.name,
            api="openai" if settings is None else settings.main_api,
            warn=WarningLog(),
        )
        if settings is not None:  # which scripts of cards and presets may run is in the settings
            return read
        return replace(read, preset_allowed=turn.allow_scripts, scoped_allowed=turn.allow_scripts)

    def _text_inputs(self, state: State, turn: Turn) -> SillyTavernInputs:
        found: SillyTavernInputs = {"dialect": TEXT}
        template = state.one("context_template")
        if template is not None:
            found["context_template"] = self._of(template, "template", _context_template)
        instruct = state.one("instruct")
        if instruct is not None:
            found["instruct"] = self._of(instruct, "template", _instruct).replace(enabled=True)
        system = state.one("system_prompt")
        if system is not None:
            found["system_prompt"] = self._of(system, "template", _system_prompt).replace(enabled=True)
        if turn.context_length is not None:
            found["context_length"] = turn.context_length
        if turn.response_length is not None:
            found["response_length"] = turn.response_length
        return found

    def _read_preset(self, document: Document) -> Preset:
        base = self._settings.preset if self._settings is not None else None
        return Preset.from_json(_object(document), name=document.name, base=base, warn=WarningLog())

    def _risu_character(self, document: Document) -> RisuCharacter:
        card = _character(document)
        found = risu_character(document.bundle.replace(card=card) if document.bundle is not None else card)
        assert found is not None
        return found

    def _of(self, document: Document | None, what: str, make: Callable[[Document], T]) -> T:
        """Return the cached value of a document's data, or make it."""
        if document is None:
            raise StudioError(422, "a document is missing that the prompt needs", code="incomplete")
        key = (document.id, what, id(document.data))
        known = self._made.get(key)
        if known is not None and known[0] is document.data:
            return known[1]  # pyright: ignore[reportReturnType]  # it was made by the same function
        try:
            made = make(document)
        except StudioError:
            raise
        except TavernKitError as error:
            raise StudioError(422, f"{document.title}: {error}", code="unusable_document") from error
        self._made.put(key, (document.data, made))
        return made


def _object(document: Document) -> JsonObject:
    if not is_object(document.data):
        raise StudioError(422, f"{document.title}: it is not a JSON object", code="unusable_document")
    return document.data


def _character(document: Document) -> Character:
    return Character.from_card(_object(document), warn=WarningLog())


def _avatar(document: Document) -> str:
    """Return a card's file name, which is SillyTavern's id for it; cards with the same name get different ones."""
    return document.path.name if document.path is not None else f"{document.title} {document.id}.png"


def _world(document: Document) -> WorldBook:
    data = _object(document)
    if document.format == WORLD_INFO:
        # Documents are never changed in place, so a book of ten thousand entries need not be copied.
        return WorldBook(document.name, data)
    return world_book(data, document.name)


def _lorebook(document: Document) -> Lorebook:
    return Lorebook.from_json(_object(document), name=document.name, warn=WarningLog())


def _risu_preset(document: Document) -> RisuPreset:
    content = json.dumps(_object(document)).encode()
    return RisuPreset.load(content, name=f"{document.name}.json", warn=WarningLog())


def _chat(document: Document) -> ChatFile:
    data = _object(document)
    header, messages = data.get("header"), data.get("messages")
    fields: Mapping[str, object] = header if is_mapping(header) else {}
    metadata = fields.get("chat_metadata")
    lines: Sequence[object] = messages if is_list(messages) else ()
    return ChatFile(
        messages=tuple(ChatMessage.from_json(line) for line in lines if is_mapping(line)),
        metadata=ChatMetadata.from_json(metadata) if is_mapping(metadata) else ChatMetadata(),
        header=freeze_object(fields),
        name=document.name,
    )


def _chat_of_risu(document: Document) -> ChatFile:
    lines = [
        ChatMessage(name="", mes=message.data, is_user=message.role == "user")
        for message in _risu_chat(document).messages
    ]
    return ChatFile(messages=tuple(lines), name=document.name)


def _risu_chat(document: Document) -> RisuChat:
    return RisuChat.from_json(_object(document))


def _risu_chat_of_lines(document: Document) -> RisuChat:
    messages = _object(document).get("messages")
    if not messages:
        raw: JsonObject = {"message": [], "name": document.name, "fmIndex": -1, "note": "", "localLore": []}
        return RisuChat.from_json(raw)
    return RisuChatFile.load(file_content(document), warn=WarningLog()).chats[0]


def _context_template(document: Document) -> ContextTemplate:
    return ContextTemplate.from_json(_object(document), warn=WarningLog())


def _instruct(document: Document) -> InstructTemplate:
    return InstructTemplate.from_json(_object(document), warn=WarningLog())


def _system_prompt(document: Document) -> SystemPrompt:
    return SystemPrompt.from_json(_object(document), warn=WarningLog())
