"""The sources of a SillyTavern build: its inputs, with every text that can be in a prompt traced."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

from tavernkit._text.traced import Origin, collected, give, plain, trace
from tavernkit._values import FrozenJson, FrozenObject, is_mapping, is_sequence
from tavernkit.cards._character import Character, Participant, fields_home
from tavernkit.prompt._context import BuildState, Context, DrawnNumbers
from tavernkit.prompt._inputs import InjectionRegistry, followed_by
from tavernkit.prompt._traced_inputs import (
    TracedCopies,
    escaped,
    traced_character,
    traced_json,
    traced_text,
    traced_user,
    twin,
)
from tavernkit.silly_tavern._chat.card_fields import Persona
from tavernkit.silly_tavern._chat.chat_log import ChatLog
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.vector_storage import VectorResults
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._files.chat_file import ChatMetadata
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._group import Group
from tavernkit.silly_tavern._services import Services, selected_books
from tavernkit.silly_tavern._source_texts import METADATA_TEXTS, chat_name
from tavernkit.silly_tavern._world_info.book import WorldBook
from tavernkit.silly_tavern._world_info.entry import Entry
from tavernkit.stores._variables import VariablesStore

T = TypeVar("T")

_PRESET_TEXTS = (
    "send_if_empty",
    "impersonation_prompt",
    "new_chat_prompt",
    "new_group_chat_prompt",
    "new_example_chat_prompt",
    "continue_nudge_prompt",
    "group_nudge_prompt",
    "wi_format",
    "scenario_format",
    "personality_format",
    "assistant_prefill",
    "assistant_impersonation",
    "continue_postfix",
)
_BUILT_IN = "SillyTavern's own"
"""The name of texts that are in no file of the user's."""


def traced_context(
    context: SillyTavernContext,
    lines: Sequence[ChatMessage],
    kept: Sequence[int],
    wanted: Container[int],
    numbers: DrawnNumbers | None,
    variables: VariablesStore,
    copies: TracedCopies,
    known: Container[object] = (),
) -> SillyTavernContext:
    """Return the context of a build with traced texts, without warnings or checks.

    Args:
        context: The context.
        lines: The chat as the build saw it.
        kept: The indices of the lines to keep.
        wanted: The indices of the lines that are traced.
        numbers: The random numbers drawn so far, if they are the application's.
        variables: The variables as the build saw them.
        copies: Cached traced copies of inputs.
        known: Slots of the preset's own prompts that are not needed: their texts are known.
    """
    chat = chat_name(context)
    preset = copies.of(context.preset, _preset)
    every = range(len(lines))
    hooked = context.hooks is not None and (known or len(kept) < len(lines))
    traced = {
        index: _line(lines[index], index, chat) for index in (every if hooked else kept) if index and index in wanted
    }
    first = copies.of_more(lines[0], _first_line, (chat,)) if lines and 0 in wanted else None
    if first is not None:  # it is traced in every map, and others in few
        traced[0] = first

    def inputs(kept: Sequence[int], known: Container[object]) -> dict[str, object]:
        log = ChatLog(
            [traced[index] if index in traced else lines[index] for index in kept],
            user_name=context.user_name,
            character_name=context.character_name,
        )
        return {"history": log, "preset": _without(preset, known)}

    changed = inputs(kept, known)
    if context.hooks is not None and hooked:
        whole = inputs(every, ())
        changed = {**whole, "hooks": followed_by(context.hooks, partial(_shorten, whole, changed))}
    return context.replace(
        strict=False,
        on_overflow="return",
        warn=None,
        instrumenter=None,
        random=context.random if numbers is None else numbers.again(),
        variables=variables,
        character=copies.of(context.card, traced_character),
        members={avatar: copies.of(card, traced_character) for avatar, card in context.members.items()},
        group=copies.of(context.group, _group),
        user=copies.of(context.user, _user),
        persona=copies.of(context.persona, _persona),
        settings=copies.of(context.settings, _settings),
        chat_metadata=copies.of_more(context.chat_metadata, _metadata, (chat,)),
        message=traced_text(context.message, "message", "", ""),
        quiet_prompt=traced_text(context.quiet_prompt, "quiet prompt", "", ""),
        injections=_injections(context.injections),
        extension_prompts=[
            _fields(prompt, "extension prompt", prompt.key, "", ("value",)) for prompt in context.extension_prompts
        ],
        instruct=copies.of_more(context.instruct, _template, ("instruct template", "")),
        context_template=copies.of_more(context.context_template, _template, ("context template", "")),
        system_prompt=copies.of_more(context.system_prompt, _template, ("system prompt", "")),
        attachments=_Attachments(context.attachments),
        vectors=_vectors(context.vectors),
        macro_vars={
            name: traced_text(value, "macro", name, "") if isinstance(value, str) else value
            for name, value in context.macro_vars.items()
        },
        **changed,
    )


def _shorten(whole: Mapping[str, object], short: Mapping[str, object], state: BuildState[Context]) -> None:
    """Leave out what is not needed after hooks have seen all of it, unless they replaced it."""
    state.change_inputs(**{name: short[name] for name in whole if getattr(state.context, name) is whole[name]})


def _without(preset: Preset | None, identifiers: Container[object]) -> Preset | None:
    """Return a preset without some of the user's prompts; SillyTavern's stay, because texts are placed next to them."""
    if preset is None or not identifiers:
        return preset
    prompts = [each for each in preset.prompts if each.system_prompt is not False or each.identifier not in identifiers]
    return twin(preset, {"prompts": tuple(prompts)})


class _Attachments(Mapping[str, str]):
    """The texts of files, traced on demand."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def __getitem__(self, url: str) -> str:
        return traced_text(self._texts[plain(url)], "attachment", plain(url), "")

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _fields(value: T, kind: str, name: str, pointer: str, names: Iterable[str]) -> T:
    """Return a copy with these fields traced."""
    changes: dict[str, object] = {}
    for each in names:
        text: object = getattr(value, each)
        if isinstance(text, str):
            changes[each] = traced_text(text, kind, name, f"{pointer}/{each}")
    return twin(value, changes)


def _preset(preset: Preset, kind: str = "preset", where: str = "") -> Preset:
    name = preset.name
    changes: dict[str, object] = {}
    for key in _PRESET_TEXTS:
        own = key in preset.source
        changes[key] = traced_text(getattr(preset, key), kind, name if own else _BUILT_IN, f"{where}/{key}")
    written = preset.source.get("prompts")
    listed = len(written) if is_sequence(written) else len(preset.prompts)
    prompts = [
        twin(
            prompt,
            {
                "content": traced_text(
                    prompt.content,
                    kind,
                    name if index < listed else _BUILT_IN,
                    f"{where}/prompts/{index}/content",
                    prompt.name or prompt.identifier,
                )
            },
        )
        for index, prompt in enumerate(preset.effective_prompts)
    ]
    return twin(preset, {**changes, "prompts": tuple(prompts)})


def _template(template: T, kind: str, pointer: str) -> T:
    """Return a template of text completion with all texts traced."""
    names = [
        each.name
        for each in dataclasses.fields(template)  # pyright: ignore[reportArgumentType]  # every template is a dataclass
        if each.name not in ("name", "names_behavior")
    ]
    return _fields(template, kind, str(getattr(template, "name", "")), pointer, names)


def _settings(settings: Settings) -> Settings:
    power_user, note = settings.power_user, settings.note
    where = "/extension_settings/note"
    characters = tuple(
        _fields(each, "settings", "settings", f"{where}/chara/{index}", ("prompt",))
        for index, each in enumerate(note.characters)
    )
    changes: dict[str, object] = {
        "username": traced_text(settings.username, "settings", "settings", "/username"),
        "persona": twin(
            settings.persona,
            {
                "description": traced_text(
                    settings.persona.description, "persona", "settings", "/power_user/persona_description"
                )
            },
        ),
        "note": twin(
            note,
            {
                "default": traced_text(note.default, "author's note", "settings", f"{where}/default"),
                "characters": characters,
            },
        ),
        "preset": _preset(settings.preset, "settings", "/oai_settings"),
        "power_user": twin(
            power_user,
            {
                "user_prompt_bias": traced_text(
                    power_user.user_prompt_bias, "settings", "settings", "/power_user/user_prompt_bias"
                ),
                "reasoning": _fields(
                    power_user.reasoning,
                    "settings",
                    "settings",
                    "/power_user/reasoning",
                    ("prefix", "suffix", "separator"),
                ),
                "instruct": _template(power_user.instruct, "settings", "/power_user/instruct"),
                "context": _template(power_user.context, "settings", "/power_user/context"),
                "sysprompt": _template(power_user.sysprompt, "settings", "/power_user/sysprompt"),
            },
        ),
    }
    extensions = settings.source.get("extension_settings")
    if is_mapping(extensions):
        wanted = {
            key: traced_json(cast("FrozenJson", extensions[key]), "settings", "settings", f"/extension_settings/{key}")
            for key in ("memory", "vectors", "cfg")
            if key in extensions
        }
        changes["source"] = {**settings.source, "extension_settings": {**extensions, **wanted}}
    return twin(settings, changes)


def _group(group: Group) -> Group:
    return _fields(group, "group", group.name, "", ("join_prefix", "join_suffix"))


def _user(user: Participant) -> Participant:
    return traced_character(user) if isinstance(user, Character) else traced_user(user)


def _persona(persona: Persona) -> Persona:
    return _fields(persona, "persona", "", "", ("description",))


def _metadata(metadata: ChatMetadata, chat: str) -> ChatMetadata:
    changes: dict[str, object] = {
        key: traced_text(getattr(metadata, key), "author's note" if key == "note_prompt" else "chat", chat, f"/{key}")
        for key in METADATA_TEXTS
        if getattr(metadata, key)
    }
    own = {
        key: traced_json(value, "inject" if key == "script_injects" else "chat", chat, f"/{escaped(key)}")
        for key, value in metadata.source.items()
        if key == "script_injects" or (key.startswith("cfg_") and key.endswith("_prompt"))
    }
    if own:
        changes["source"] = {**metadata.source, **own}
    return twin(metadata, changes)


def _first_line(line: ChatMessage, chat: str) -> ChatMessage:
    return _line(line, 0, chat)


def _line(line: ChatMessage, index: int, chat: str) -> ChatMessage:
    return ChatMessage(
        name=traced_text(line.name, "chat", chat, f"/{index}/name", line.name),
        mes=traced_text(line.mes, "chat", chat, f"/{index}/mes", line.name),
        is_user=line.is_user,
        is_system=line.is_system,
        force_avatar=line.force_avatar,
        original_avatar=line.original_avatar,
        send_date=line.send_date,
        swipes=line.swipes,
        swipe_id=line.swipe_id,
        extra=cast("FrozenObject", traced_json(line.extra, "chat", chat, f"/{index}/extra"))
        if line.extra
        else line.extra,
        source=line.source,
    )


def _injections(registry: InjectionRegistry | None) -> InjectionRegistry | None:
    if registry is None:
        return None
    twin = InjectionRegistry()
    for each in registry:
        twin.register(
            each.id,
            traced_text(each.content, "injection", each.id, ""),
            each.position,
            role=each.role,
            depth=each.depth,
            scan=each.scan,
            ephemeral=each.ephemeral,
            filter=each.filter,
        )
    return twin


def _vectors(results: VectorResults | None) -> VectorResults | None:
    if results is None:
        return None
    hits = {
        collection: tuple(
            twin(hit, {"text": traced_text(hit.text, "vectors", collection, f"/{index}/text")})
            for index, hit in enumerate(found)
        )
        for collection, found in results.hits.items()
    }
    return twin(results, {"hits": hits})


class EntryTexts:
    """Returns the texts of lore entries, traced to their books."""

    def __init__(self, context: SillyTavernContext, services: Services) -> None:
        self._context = context
        self._services = services

    def __call__(self, entry: Entry) -> str:
        """Return the text of an entry, without its decorators."""
        card = self._context.card
        made = self._services.entry_texts.get(entry, card)
        if made is None:
            with collected() as origins:
                text = self._trace(entry)
            made = self._services.entry_texts.put((text, origins), entry, card)
        give(made[1])
        return made[0]

    def _trace(self, entry: Entry) -> str:
        written = entry.raw.get("content")
        if not isinstance(written, str) or not written.endswith(entry.content):
            return entry.content
        name, pointer = self._place(entry)
        origin = Origin("lore", name, pointer, written, entry.title)
        return trace(entry.content, origin, len(written) - len(entry.content))

    def _place(self, entry: Entry) -> tuple[str, str]:
        """Return the book of an entry and its place there; for a card's own book, the place in the card."""
        card = self._context.card
        for book in selected_books(self._context, self._services).books:
            raw, index, key = self._entries_of(book).get(id(entry.raw), (None, 0, ""))
            if raw is not entry.raw:
                continue
            if card is not None and book is self._services.embedded_book(card):
                home = fields_home(card.raw)[1] if card.raw else "/data"
                return book.name, f"{home}/character_book/entries/{index}/content"
            return book.name, f"/entries/{escaped(key)}/content"
        return entry.world, f"/{entry.uid}/content"

    def _entries_of(self, book: WorldBook) -> Mapping[int, tuple[object, int, str]]:
        places = self._services.entry_places
        known = places.get(book)
        if known is None:
            entries = enumerate(book.raw_entries())
            known = places.put({id(raw): (raw, index, key) for index, (key, raw) in entries}, book)
        return known
