"""Builds of SillyTavern's chats: builders by cast, and the inputs of turns."""

from __future__ import annotations

from collections.abc import Iterable

from tavernkit import silly_tavern as st
from tavernkit._values import LRUCache, is_sequence, thaw
from tavernkit.cards import User
from tavernkit.server.adapters.silly_tavern_lines import has_media, is_about_tools, is_named
from tavernkit.server.adapters.turn import TurnInput
from tavernkit.server.library.library import Cast
from tavernkit.server.library.stored_folders import StoredMedia, StoredTexts
from tavernkit.server.limits import CACHED_BUILDERS, MAX_STOP_STRINGS
from tavernkit.server.storage.lines import ChatLine
from tavernkit.silly_tavern._chat_completion.tools import read_tools
from tavernkit.silly_tavern._files.data_folder import allowed_scripts, tags_of
from tavernkit.silly_tavern._world_info.selection import character_book_names

API = "openai"


class Builds:
    """Caches builders by cast, and uses them for plans and speakers."""

    def __init__(self, tokenizers: st.TokenizerFiles | None = None) -> None:
        self._tokenizers = tokenizers
        self._services = st.Builder().services
        self._builders: LRUCache[tuple[object, ...], st.Builder] = LRUCache(CACHED_BUILDERS)
        self._scripts: LRUCache[tuple[object, ...], st.RegexScripts] = LRUCache(CACHED_BUILDERS)
        self._turns: LRUCache[tuple[object, ...], st.Builder] = LRUCache(CACHED_BUILDERS)

    def builder(self, cast: Cast) -> st.Builder:
        """The builder of a cast."""
        return self._builders.get_or_make(cast.key, lambda: self._make_builder(cast))

    def builder_of_turn(self, given: TurnInput, cut: int = 0) -> st.Builder:
        """The builder of a turn, with everything that it is given besides the chat.

        Turns of many sessions are given the same: their builder is made once.

        Args:
            given: The turn.
            cut: How many leading lines are known to have no tool calls.
        """
        cast, extras = given.cast, given.extras
        own = cast.group is not None or given.seed is not None or extras.books or extras.files
        if own or given.options.get("tools") or any(is_about_tools(line) for line in given.lines[cut:]):
            return self.builder(cast).replace(**self._inputs(given, cut))
        key = (
            *(cast.key, given.user_name, given.dialect, given.caching, given.limits, given.response_length),
            given.context_size(_own_context(given, own_preset(cast))),
            *_stop_strings(given.options.get("stop")),
        )
        return self._turns.get_or_make(key, lambda: self.builder(cast).replace(**self._inputs(given, cut)))

    def _inputs(self, given: TurnInput, cut: int = 0) -> st.SillyTavernInputs:
        """Return the inputs of this turn's builds besides the chat."""
        cast = given.cast
        preset = own_preset(cast)
        inputs: st.SillyTavernInputs = {
            "response_length": given.response_length,
            "context_length": given.context_size(_own_context(given, preset)),
            "regex_scripts": self._regex_scripts(cast, cast.selection.character or cast.member(given.speaker)),
            "stop_strings": _stop_strings(given.options.get("stop")),
            "limits": given.limits,
            "strategy": given.caching.strategy,
            "lore": given.caching.lore,
            "volatile": given.caching.volatile,
            "cache_profile": given.caching.profile,
        }
        if given.dialect == "text":
            inputs["dialect"] = "text"
        if cast.group is not None:
            inputs["member_extras"] = {
                cast.avatar(member): _extras(cast, member, self._regex_scripts(cast, member)) for member in cast.members
            }
        if given.extras.books:
            inputs["chat_books"] = given.extras.books
        if given.extras.files:
            inputs["attachments"] = StoredTexts(given.extras.files)
            inputs["media"] = StoredMedia(given.extras.files)
        if cast.persona is None and cast.folder is None:
            inputs["user"] = User(name=given.user_name)
        if given.seed is not None:
            inputs["seed"] = given.seed
        tools = given.options.get("tools")
        if tools or any(is_about_tools(line) for line in given.lines[cut:]):
            preset = self.builder(cast).make_context().active_preset
            inputs["preset"] = preset.replace(function_calling=True)
            inputs["tools"] = read_tools(tools)
        return inputs

    def _regex_scripts(self, cast: Cast, character: str | None) -> st.RegexScripts:
        return self._scripts.get_or_make((cast.key, character), lambda: _scripts_of(cast, character))

    def _make_builder(self, cast: Cast) -> st.Builder:
        inputs: st.SillyTavernInputs = {
            "preset": own_preset(cast) or st.Preset.default(),
            "settings": st.Settings(power_user=cast.power_user),
            "books": cast.books,
            "character_books": cast.character_books,
            "persona_books": cast.persona_books,
            "use_embedded_book": not cast.character_books,
            "tokenizers": self._tokenizers,
            "warn": None,
        }
        folder, character_id = cast.folder, cast.selection.character
        if cast.character is not None:
            inputs["character"] = cast.character.character
        if folder is not None:
            inputs["settings"] = folder.settings
            inputs["books"] = [*_named_books(cast, folder.settings.world_info.global_select), *cast.books]
            inputs["use_embedded_book"] = False
        opened = cast.opened_persona
        if opened is not None:
            inputs["user"], inputs["persona"] = User(name=opened.name), opened.persona
            if opened.persona.lorebook:
                inputs["persona_books"] = _named_books(cast, [opened.persona.lorebook])
        if folder is not None and character_id is not None:
            extras = _extras(cast, character_id, None)
            inputs |= {"avatar": cast.avatar(character_id), "tags": extras.tags, "character_books": extras.books}
        if cast.group is not None:
            inputs["group"] = cast.group.replace(
                members=tuple(map(cast.avatar, cast.group.members)),
                disabled_members=tuple(map(cast.avatar, cast.group.disabled_members)),
            )
            inputs["members"] = {cast.avatar(member): bundle.character for member, bundle in cast.members.items()}
        persona = cast.persona
        if persona is not None:
            inputs["user"] = User(name=persona.name, persona=persona.description)
            inputs["persona"] = st.Persona(persona.description, persona.position, persona.depth, persona.role)
        return st.Builder(services=self._services, **inputs)


def own_preset(cast: Cast) -> st.Preset | None:
    """Return the preset of a chat, or that of its folder."""
    if isinstance(cast.preset, st.Preset):
        return cast.preset
    return cast.folder.settings.preset if cast.folder is not None else None


def _own_context(given: TurnInput, preset: st.Preset | None) -> int | None:
    """Return the context size of the folder or the preset."""
    if given.dialect == "text" and given.cast.folder is not None:
        return given.cast.folder.settings.max_context
    return preset.openai_max_context if preset is not None else None


def _extras(cast: Cast, character: str, scripts: st.RegexScripts | None) -> st.CharacterExtras:
    """Return a character's other data; books and tags are the folder's."""
    folder, bundle = cast.folder, cast.members.get(character, cast.character)
    if folder is None or bundle is None:
        return st.CharacterExtras(regex_scripts=scripts)
    avatar = cast.avatar(character)
    names = character_book_names(bundle.character.world_name, avatar, folder.settings.world_info.character_lore)
    return st.CharacterExtras(
        books=_named_books(cast, names), tags=tags_of(folder.settings, avatar), regex_scripts=scripts
    )


def _named_books(cast: Cast, names: Iterable[str]) -> list[st.WorldBook]:
    return [cast.folder_books[name] for name in names if name in cast.folder_books]


def pending_line(given: TurnInput) -> ChatLine | None:
    """The line that is being sent."""
    last = given.lines[-1] if given.lines else None
    return last if last is not None and last.id == given.pending else None


def typed_line(given: TurnInput) -> ChatLine | None:
    """Return the line that goes through the input box.

    Slash commands are not run: a client's text is always a text. Pictures and names of other users need a line.
    """
    sent = pending_line(given)
    if sent is None or not sent.content or sent.content.lstrip().startswith("/") or has_media(sent):
        return None
    return None if is_named(sent, given.cast.user_avatar) else sent


def _stop_strings(given: object) -> list[str]:
    """Return the stop strings of the client's request: one, or a list."""
    listed = given if is_sequence(given) else (given,)
    return [each for each in listed if isinstance(each, str)][:MAX_STOP_STRINGS]


def _scripts_of(cast: Cast, character: str | None) -> st.RegexScripts:
    """Return the scripts: global ones, those of the preset and those of the character.

    A folder decides which are allowed, for its chats and its items; otherwise adding them means allowing them.
    """
    preset = own_preset(cast)
    bundle = cast.members.get(character or "", cast.character)
    card = bundle.character if bundle is not None else None
    if cast.folder is not None:
        avatar = cast.avatar(character) if character is not None else None
        return allowed_scripts(cast.folder.settings, card, avatar, preset=preset, warn=_ignore)
    avatar = card.name if card is not None else None
    owner = character if character in cast.members else cast.selection.character
    card_refused = ("character", owner) in cast.refused_scripts
    preset_refused = preset is None or ("preset", cast.selection.preset) in cast.refused_scripts
    allowed = {
        "regex": thaw(cast.regex_scripts),
        "character_allowed_regex": [] if card_refused else [avatar],
        "preset_allowed_regex": {} if preset is None or preset_refused else {API: [preset.name]},
    }
    settings = st.Settings.from_json({"extension_settings": allowed}, warn=_ignore)
    return allowed_scripts(settings, card, avatar, preset=preset, warn=_ignore)


def _ignore(_: str) -> None:
    """Ignore a warning: problems of scripts are reported when they are imported, and by lint."""
