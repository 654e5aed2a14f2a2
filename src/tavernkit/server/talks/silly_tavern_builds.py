"""Builds of SillyTavern's chats: builders by cast, and what a turn gives them."""

from __future__ import annotations

from tavernkit import silly_tavern as st
from tavernkit.cards import Character, User
from tavernkit.server.library import Cast
from tavernkit.server.limits import CACHED_BUILDERS, MAX_STOP_STRINGS
from tavernkit.server.storage.chats import ChatLine
from tavernkit.server.talks.silly_tavern_lines import has_media, is_about_tools, is_named
from tavernkit.server.talks.talk import TalkInput
from tavernkit.values import LRUCache, is_mapping, is_object, is_sequence, thaw

API = "openai"


class Builds:
    """Makes builders once for each cast and asks them for plans and speakers."""

    def __init__(self) -> None:
        self._services = st.Builder().services
        self._builders: LRUCache[tuple[object, ...], st.Builder] = LRUCache(CACHED_BUILDERS)
        self._scripts: LRUCache[tuple[object, ...], st.RegexScripts] = LRUCache(CACHED_BUILDERS)

    def builder(self, cast: Cast) -> st.Builder:
        """The builder of a cast."""
        return self._builders.get_or_make(cast.key, lambda: self._make_builder(cast))

    def inputs(self, given: TalkInput) -> st.SillyTavernInputs:
        """What this turn's builds are given besides the chat."""
        cast = given.cast
        inputs: st.SillyTavernInputs = {
            "response_length": given.response_length,
            "context_length": given.context_size(
                cast.preset.openai_max_context if isinstance(cast.preset, st.Preset) else None
            ),
            "regex_scripts": self._regex_scripts(cast, card_of(cast, given.speaker)),
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
                member: st.CharacterExtras(regex_scripts=self._regex_scripts(cast, bundle.character))
                for member, bundle in cast.members.items()
            }
        if cast.persona is None:
            inputs["user"] = User(name=given.user_name)
        if given.seed is not None:
            inputs["seed"] = given.seed
        tools = given.options.get("tools")
        if tools or any(is_about_tools(line) for line in given.lines):
            preset = self.builder(cast).make_context().active_preset
            inputs["preset"] = preset.replace(function_calling=True)
            inputs["tools"] = _tools(tools)
        return inputs

    def _regex_scripts(self, cast: Cast, card: Character | None) -> st.RegexScripts:
        member = next((each for each, bundle in cast.members.items() if bundle.card is card), None)
        key = (cast.key, member, card is None)  # members of a group may share a name
        return self._scripts.get_or_make(key, lambda: _scripts_of(cast, card))

    def _make_builder(self, cast: Cast) -> st.Builder:
        inputs: st.SillyTavernInputs = {
            "preset": cast.preset if isinstance(cast.preset, st.Preset) else st.Preset.default(),
            "settings": st.Settings(power_user=cast.power_user),
            "books": cast.books,
            "character_books": cast.character_books,
            "persona_books": cast.persona_books,
            "use_embedded_book": not cast.character_books,
            "warn": None,
        }
        if cast.character is not None:
            inputs["character"] = cast.character.character
        if cast.group is not None:
            inputs["group"] = cast.group
            inputs["members"] = {member: bundle.character for member, bundle in cast.members.items()}
        persona = cast.persona
        if persona is not None:
            inputs["user"] = User(name=persona.name, persona=persona.description)
            inputs["persona"] = st.Persona(persona.description, persona.position, persona.depth, persona.role)
        return st.Builder(services=self._services, **inputs)


def pending_line(given: TalkInput) -> ChatLine | None:
    """The line that is being sent."""
    last = given.lines[-1] if given.lines else None
    return last if last is not None and last.id == given.pending else None


def typed_line(given: TalkInput) -> ChatLine | None:
    """The line that goes through the input box.

    A slash command would not be sent from there: here a client's text is a text. Pictures and names of other users
    come with lines only.
    """
    sent = pending_line(given)
    if sent is None or not sent.content or sent.content.lstrip().startswith("/") or has_media(sent) or is_named(sent):
        return None
    return sent


def card_of(cast: Cast, speaker: str | None) -> Character | None:
    """The card of whoever speaks: in a group the member with the id or name."""
    if cast.group is None:
        return cast.character.character if cast.character is not None else None
    if speaker is not None and speaker in cast.members:
        return cast.members[speaker].character
    cards = (bundle.character for bundle in cast.members.values())
    return next((card for card in cards if card.name == speaker), None)


def _stop_strings(given: object) -> list[str]:
    """The stop strings of the client's request: one, or a list."""
    listed = given if is_sequence(given) else (given,)
    return [each for each in listed if isinstance(each, str)][:MAX_STOP_STRINGS]


def _tools(tools: object) -> list[st.Tool]:
    found: list[st.Tool] = []
    for each in tools if is_sequence(tools) else ():
        function = each.get("function") if is_object(each) else None
        if is_mapping(function) and isinstance(function.get("name"), str):
            parameters = function.get("parameters")
            found.append(
                st.Tool(
                    name=str(function["name"]),
                    description=str(function.get("description") or ""),
                    parameters=parameters if is_object(parameters) else {},
                )
            )
    return found


def _scripts_of(cast: Cast, card: Character | None) -> st.RegexScripts:
    """The global scripts, those of the preset and those of the character: who added them has allowed them."""
    preset = cast.preset if isinstance(cast.preset, st.Preset) else None
    avatar = card.name if card is not None else None
    return st.RegexScripts.from_settings(
        {
            "regex": thaw(cast.regex_scripts),
            "character_allowed_regex": [avatar],
            "preset_allowed_regex": {API: [preset.name] if preset is not None else []},
        },
        card_data={"extensions": card.extensions} if card is not None else None,
        avatar=avatar,
        preset={"extensions": preset.extensions} if preset is not None else None,
        preset_name=preset.name if preset is not None else None,
        api=API,
        warn=_ignore,
    )


def _ignore(_: str) -> None:
    """What is wrong with a script is reported when it is imported, and by lint."""
