"""The sources of a RisuAI build: its inputs, with every text that can be in a prompt traced."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial

from tavernkit._values import FrozenObject
from tavernkit.prompt._context import BuildState, Context, DrawnNumbers
from tavernkit.prompt._inputs import followed_by
from tavernkit.prompt._traced_inputs import TracedCopies, traced_fields, traced_json, traced_text, traced_user, twin
from tavernkit.risu_ai._context import RisuAIContext
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._lorebook.book import Lorebook
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, RisuModule
from tavernkit.risu_ai._prompt_template.cards import TemplateCard
from tavernkit.risu_ai._source_texts import chat_name, message_text
from tavernkit.stores._variables import VariablesStore

_CHARACTER_TEXTS = {
    "name": "name",
    "nickname": "nickname",
    "description": "desc",
    "personality": "personality",
    "scenario": "scenario",
    "example_message": "exampleMessage",
    "first_message": "firstMessage",
}
"""Fields of a character and RisuAI's keys for them."""

_CHARACTER_KEYS = ("systemPrompt", "replaceGlobalNote", "depth_prompt", "additionalText", "newGenData")
"""More texts of a character, which prompts read from what RisuAI stores."""

_PRESET_TEXTS = {
    "main_prompt": "mainPrompt",
    "jailbreak": "jailbreak",
    "global_note": "globalNote",
    "group_template": "groupTemplate",
}
_CARD_TEXTS = {"text": "text", "inner_format": "innerFormat", "default_text": "defaultText"}
_SETTINGS_TEXTS = {
    "username": "username",
    "persona_prompt": "personaPrompt",
    "additional_prompt": "additionalPrompt",
    "description_prefix": "descriptionPrefix",
}
_BUILT_IN_TEXTS = ("chain_of_thought", "asset_command")


def traced_context(
    context: RisuAIContext,
    chat: RisuChat,
    numbers: DrawnNumbers | None,
    variables: VariablesStore,
    kept: Sequence[int],
    wanted: Container[int],
    copies: TracedCopies,
) -> RisuAIContext:
    """Return the context of a build with traced texts, without warnings, checks or model requests.

    Args:
        context: The context.
        chat: The chat as the build saw it.
        numbers: The random numbers drawn so far, if they are the application's.
        variables: The variables as the build saw them.
        kept: Places of the messages to keep.
        wanted: Places of the messages that are traced.
        copies: Cached traced copies of inputs.
    """
    history, hooks = _chat(chat, kept, wanted), context.hooks
    if hooks is not None and len(kept) < len(chat.messages):
        whole = _chat(chat, range(len(chat.messages)), wanted)
        history, hooks = whole, followed_by(hooks, partial(_shorten, whole, history))
    return context.replace(
        strict=False,
        on_overflow="return",
        warn=None,
        instrumenter=None,
        trigger_host=None,
        caption=None,
        memory=None if context.memory is None else context.memory.repeating(),
        random=context.random if numbers is None else numbers.again(),
        variables=variables,
        character=copies.of(context.owner, _character),
        members=[copies.of(each, _character) for each in context.members],
        history=history,
        hooks=hooks,
        preset=copies.of(context.preset, _preset),
        settings=copies.of(context.settings, _settings),
        modules=[copies.of(each, _module) for each in context.modules],
        books=[copies.of(each, _book) for each in context.books],
        user=copies.of(context.user, traced_user),
        message=traced_text(context.message, "message", "", ""),
    )


def _shorten(whole: RisuChat, short: RisuChat, state: BuildState[Context]) -> None:
    """Leave out messages that are not needed after hooks have seen all, unless they replaced the chat."""
    assert isinstance(state.context, RisuAIContext)
    if state.context.chat is whole:
        state.change_inputs(history=short)


def _character(character: RisuCharacter) -> RisuCharacter:
    kind, name = "group" if character.is_group else "character", character.name
    changes = traced_fields(character, kind, name, "", _CHARACTER_TEXTS)
    if character.alternate_greetings is not None:
        changes["alternate_greetings"] = tuple(
            traced_text(text, kind, name, f"/alternateGreetings/{index}")
            for index, text in enumerate(character.alternate_greetings)
        )
    if character.lore is not None:
        changes["lore"] = _lore(character.lore, name, "/globalLore")
    own = {
        key: traced_json(character.raw[key], kind, name, f"/{key}") for key in _CHARACTER_KEYS if key in character.raw
    }
    return twin(character, {**changes, "raw": {**character.raw, **own}})


def _lore(entries: Iterable[FrozenObject], book: str, pointer: str) -> tuple[FrozenObject, ...]:
    found: list[FrozenObject] = []
    for index, entry in enumerate(entries):
        content, title = entry.get("content"), entry.get("comment")
        if isinstance(content, str):
            title = title if isinstance(title, str) else ""
            entry = {**entry, "content": traced_text(content, "lore", book, f"{pointer}/{index}/content", title)}
        found.append(entry)
    return tuple(found)


def _chat(chat: RisuChat, kept: Sequence[int], wanted: Container[int]) -> RisuChat:
    name = chat_name(chat)
    given = chat.messages
    messages = [_message(given[index], index, name) if index in wanted else given[index] for index in kept]
    note = traced_text(chat.note, "author's note", name, "/note")
    changes = {"messages": tuple(messages), "note": note, "local_lore": _lore(chat.local_lore, name, "/localLore")}
    return twin(chat, changes)


def _message(message: RisuMessage, index: int, chat: str) -> RisuMessage:
    return RisuMessage(
        role=message.role,
        data=message_text(message, index, chat),
        time=message.time,
        saying=message.saying,
        raw=message.raw,
    )


def _preset(preset: Preset, kind: str = "preset", pointer: str = "") -> Preset:
    changes = traced_fields(preset, kind, preset.name, pointer, _PRESET_TEXTS)
    if preset.prompt_template is not None:
        changes["prompt_template"] = _cards(preset.prompt_template, kind, preset.name, f"{pointer}/promptTemplate")
    texts = {"post_end_inner_format": "postEndInnerFormat"}
    where = f"{pointer}/promptSettings"
    settings = twin(preset.prompt_settings, traced_fields(preset.prompt_settings, kind, preset.name, where, texts))
    return twin(preset, {**changes, "prompt_settings": settings})


def _cards(cards: Sequence[TemplateCard], kind: str, name: str, pointer: str) -> tuple[TemplateCard, ...]:
    found: list[TemplateCard] = []
    for index, card in enumerate(cards):
        texts = {field: key for field, key in _CARD_TEXTS.items() if hasattr(card, field)}
        found.append(twin(card, traced_fields(card, kind, name, f"{pointer}/{index}", texts)))
    return tuple(found)


def _settings(settings: Settings) -> Settings:
    kind = name = "settings"
    changes = traced_fields(settings, kind, name, "", _SETTINGS_TEXTS)
    personas = [
        twin(each, traced_fields(each, "persona", each.name or "", f"/personas/{index}", _PERSONA_TEXTS))
        for index, each in enumerate(settings.personas)
    ]
    built_in: Mapping[str, str] = {each: each for each in _BUILT_IN_TEXTS}
    texts = twin(settings.texts, traced_fields(settings.texts, kind, "RisuAI's own", "", built_in))
    return twin(
        settings,
        {
            **changes,
            "personas": tuple(personas),
            "texts": texts,
            "preset": _preset(settings.preset, kind, ""),
            "presets": tuple(
                _preset(each, kind, f"/botPresets/{index}") for index, each in enumerate(settings.presets)
            ),
            "modules": tuple(_module(each, f"/modules/{index}") for index, each in enumerate(settings.modules)),
        },
    )


_PERSONA_TEXTS = {"name": "name", "prompt": "personaPrompt"}


def _book(book: Lorebook) -> Lorebook:
    return twin(book, {"entries": _lore(book.entries, book.name, "/data")})


def _module(module: RisuModule, pointer: str = "") -> RisuModule:
    return twin(module, {"lore": _lore(module.lore, module.name or module.id, f"{pointer}/lorebook")})
