"""Builds of SillyTavern's chats: builders by cast, and what a turn gives them."""

from __future__ import annotations

from tavernkit import silly_tavern as st
from tavernkit.cards import Character, User
from tavernkit.server.library import Cast
from tavernkit.server.limits import CACHED_BUILDERS
from tavernkit.server.storage.chats import ChatLine
from tavernkit.server.talks.silly_tavern_lines import has_media, is_about_tools, is_named, to_message
from tavernkit.server.talks.silly_tavern_long_chats import without_unread
from tavernkit.server.talks.silly_tavern_scripts import StoredTexts, scripts_of
from tavernkit.server.talks.talk import TalkInput
from tavernkit.stores import InMemoryVariablesStore
from tavernkit.values import LRUCache, is_mapping, is_object, is_sequence


class Builds:
    """Makes builders once for each cast and asks them for plans and speakers."""

    def __init__(self) -> None:
        self._services = st.Builder().services
        self._builders: LRUCache[tuple[object, ...], st.Builder] = LRUCache(CACHED_BUILDERS)
        self._scripts: LRUCache[tuple[object, ...], st.RegexScripts] = LRUCache(CACHED_BUILDERS)

    def plan(self, given: TalkInput, variables: InMemoryVariablesStore) -> st.ChatPlan:
        """Build the prompt of a turn."""
        return self._builder(given.cast).build(**self._inputs(given, variables))

    def decide(self, given: TalkInput, variables: InMemoryVariablesStore) -> st.GroupDecision:
        """Say who speaks in a group's turn."""
        return self._builder(given.cast).decide(**self._inputs(given, variables))

    def texts(
        self, cast: Cast, card: Character | None, *, user_name: str, variables: InMemoryVariablesStore | None = None
    ) -> StoredTexts:
        """What regex scripts and macros make of stored texts."""
        persona = cast.persona
        environment = st.MacroEnvironment(
            user_name=persona.name if persona is not None else user_name,
            character_name=card.name if card is not None else "",
            persona=persona.description if persona is not None else "",
        )
        if variables is not None:
            environment = environment.replace(variables=variables)
        return StoredTexts(self._regex_scripts(cast, card), self._services.macro_engine, environment)

    def _inputs(self, given: TalkInput, variables: InMemoryVariablesStore) -> st.SillyTavernInputs:
        cast = given.cast
        inputs: st.SillyTavernInputs = {
            "chat_metadata": {**without_unread(given.details, given.unread), "variables": {}},
            "chat_id": given.chat_id,
            "variables": variables,
            "generation_type": given.kind,
            "response_length": given.response_length,
            "context_length": given.context_size(
                cast.preset.openai_max_context if isinstance(cast.preset, st.Preset) else None
            ),
            "regex_scripts": self._regex_scripts(cast, card_of(cast, given.speaker)),
        }
        if given.dialect == "text":
            inputs["dialect"] = "text"
        if cast.persona is None:
            inputs["user"] = User(name=given.user_name)
        if given.seed is not None:
            inputs["seed"] = given.seed
        if given.speaker is not None:
            inputs["speaker"] = given.speaker
        history = list(given.lines)
        if given.kind == "normal":
            if typed_line(given) is not None:
                inputs["message"] = history.pop().content
            else:
                inputs["tool_recursion"] = 1
        inputs["history"] = [to_message(line) for line in history]
        tools = given.options.get("tools")
        if tools or any(is_about_tools(line) for line in history):
            preset = self._builder(cast).make_context().active_preset
            inputs["preset"] = preset.replace(function_calling=True)
            inputs["tools"] = _tools(tools)
        return inputs

    def _regex_scripts(self, cast: Cast, card: Character | None) -> st.RegexScripts:
        member = next((each for each, bundle in cast.members.items() if bundle.card is card), None)
        key = (cast.key, member, card is None)  # members of a group may share a name
        return self._scripts.get_or_make(key, lambda: scripts_of(cast, card))

    def _builder(self, cast: Cast) -> st.Builder:
        return self._builders.get_or_make(cast.key, lambda: self._make_builder(cast))

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
