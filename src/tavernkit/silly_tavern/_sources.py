"""The sources of a SillyTavern build: its inputs, with every text that can be in a prompt traced."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from tavernkit._text.traced import Origin, collected, give, plain, trace
from tavernkit._values import FrozenJson, FrozenObject, is_mapping, is_sequence
from tavernkit.cards._character import Character, Participant, fields_home
from tavernkit.prompt._block import Block
from tavernkit.prompt._context import DrawnNumbers
from tavernkit.prompt._injections import InjectionRegistry
from tavernkit.prompt._known_texts import KnownLine, TurnInputs
from tavernkit.prompt._plan import Plan
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
from tavernkit.silly_tavern._chat_completion.plan import ChatPlan
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._files.chat_file import ChatMetadata
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._groups.group import Group
from tavernkit.silly_tavern._services import Services, selected_books
from tavernkit.silly_tavern._world_info.book import WorldBook
from tavernkit.silly_tavern._world_info.entry import Entry
from tavernkit.silly_tavern._world_info.result import WorldInfoResult
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
_METADATA_TEXTS = ("note_prompt", "scenario", "mes_example", "system_prompt")
NEWEST_LINES = 8
"""How many of the newest lines of a chat are always traced, because macros such as ``{{lastMessage}}`` use them."""

SHORT_CHAT = 40
"""How many of the newest lines a build for a source map has at most, if that gives the same texts."""

SPARE_LINES = 4
"""How many lines it has besides those that it seems to need: hidden ones do not count."""

_SUMMARY = "memory"
"""The key of a summary of the chat, which is kept with a line."""

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
    chat = _chat_name(context)
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
        preset=_without(copies.of(context.preset, _preset), known),
        settings=copies.of(context.settings, _settings),
        history=ChatLog(
            [_line(lines[index], index, chat) if index in wanted else lines[index] for index in kept],
            user_name=context.user_name,
            character_name=context.character_name,
        ),
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
        hooks=context.hooks,
    )


def _without(preset: Preset | None, identifiers: Container[object]) -> Preset | None:
    """Return a preset without some of its own prompts; SillyTavern's stay, as others stand beside them."""
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


class LineTexts:
    """Returns lines of the chat, traced to their places in it."""

    def __init__(
        self, context: SillyTavernContext, lines: Sequence[ChatMessage], plan: ChatPlan, before: Mapping[int, KnownLine]
    ) -> None:
        """Find the lines that are in a plan unchanged.

        Args:
            context: The inputs of the build.
            lines: The chat as the build saw it.
            plan: The plan.
            before: Lines of another plan, by the ids of their blocks.
        """
        self.lines = lines
        self._message = context.message
        self._chat = _chat_name(context)
        self.known: dict[int, KnownLine] = {}
        """Lines that are in the plan, by the ids of their blocks."""
        self.whole: dict[int, KnownLine] = {}
        """Those that are blocks as they stand."""
        count, as_text = len(lines), plan.rendered is not None
        # In a text prompt, the first message that is shown may be written in another way.
        self._first = next((index for index, line in enumerate(lines) if not line.is_system), 0)
        self.changed = {0, self._first, *range(max(count - NEWEST_LINES, 0), count)}
        """Lines that are in the plan in another form, have a summary, or are among the newest."""
        self.changed.update([index for index, line in enumerate(lines) if line.extra and _SUMMARY in line.extra])
        self.others: list[tuple[int, Block, object]] = []
        """The other blocks that are sent: their indices in the plan, and their places in the chat, or slots."""
        self.steady: list[tuple[int, Block, object]] = []
        """Those that are made in the same way in the next turn. A text prompt writes the first and the newest lines
        with sequences of their own, which may be equal to the usual ones."""
        self._among = 0
        """How many lines are behind the first block that stands between lines."""
        for number, block in enumerate(plan.blocks):
            key = id(block)
            known = before.get(key)
            if (
                known is None
                or known.block is not block
                or known.place >= count
                or known.line is not lines[known.place]
                or known.chat != self._chat
            ):
                index = line_of_block(block)
                if index is None or index >= count:
                    if index == count and block.content == context.message and "{" not in block.content and not as_text:
                        self.whole[key] = KnownLine(block, count, None, self._chat, whole=True)
                    elif block.enabled:
                        self.others.append((number, block, block.slot if index is None else index))
                    if self.known and not self._among:
                        self._among = 1
                    continue
                line = lines[index]
                known = KnownLine(block, index, line, self._chat, whole=not as_text and line.mes == block.content)
            self.known[key] = known
            self._among += self._among > 0
            if known.whole:
                self.whole[key] = known
            else:
                self.changed.add(known.place)
                if block.enabled:
                    self.others.append((number, block, known.place))
        if as_text:
            spoken = next((index for index in range(count - 1, -1, -1) if lines[index].is_user), 0)
            steady = range(self._first + 1, min(count - NEWEST_LINES, spoken))
            self.steady += [each for each in self.others if not isinstance(each[2], int) or each[2] in steady]
        else:
            self.steady += self.others

    def kept(self, context: SillyTavernContext, plan: ChatPlan, known: Iterable[int]) -> Sequence[int]:
        """Return the lines that a prompt is made of besides those that are known, as they stand, or not in it at all.

        All of them, if the result may depend on how many there are.

        Args:
            context: The inputs of the build.
            plan: The plan.
            known: Ids of blocks whose texts are known.
        """
        count = len(self.lines)
        timed = any(plan.timed_world_info.values()) or any(context.metadata.timed_world_info.values())
        counted = timed or context.hooks is not None or context.vectors is not None
        if counted or count <= 2 * SHORT_CHAT:
            return range(count)
        depth = context.settings.world_info.depth
        reach = max(NEWEST_LINES, int(min(depth, SHORT_CHAT)), self._among) + SPARE_LINES
        newest = range(count - min(reach, SHORT_CHAT), count)
        lines = [line.place for key in known if (line := self.known.get(key)) is not None]
        if plan.rendered is not None and 2 * len(lines) < len(self.known):
            return range(count)  # lines that do not fit must not make room for others
        self.changed.difference_update([index for index in lines if self._first < index < newest.start])
        return [*sorted(index for index in self.changed if index < newest.start), *newest]

    def known_slots(self, known: Container[int]) -> set[object]:
        """Return the slots, apart from the chat, of which all blocks are known."""
        slots: set[object] = {place for _, block, place in self.others if place == block.slot and id(block) in known}
        return slots - {block.slot for _, block, _ in self.others if id(block) not in known}

    def has(self, block: Block) -> bool:
        """Return True if a block is an unchanged line of the chat, or the user's new message."""
        index = line_of_block(block)
        if index is None or index >= len(self.lines):
            return id(block) in self.whole
        return block.content == self.lines[index].mes

    def of_block(self, block: Block) -> str:
        """Return the text of a block; for an unchanged line of the chat, with its place."""
        known = self.whole.get(id(block))
        if known is not None:
            if not known.text:
                known.text = self._line(known.place)
            return known.text
        if type(block.content) is not str or not self.has(block):
            return block.content
        index = line_of_block(block)
        assert index is not None
        return self._line(index)

    def unused(self, plan: Plan) -> Iterator[tuple[str, str]]:
        """Yield the lines that are not in a plan, each with the reason."""
        used = {line_of_block(block) for block in plan.enabled_blocks}
        left_out = next((each.reason for each in plan.omissions if each.kind == "history"), "")
        for index, line in enumerate(self.lines):
            if index not in used:
                yield self._line(index), "hidden in the chat" if line.is_system else left_out

    def _line(self, index: int) -> str:
        if index == len(self.lines):
            return traced_text(self._message, "message", "", "")
        line = self.lines[index]
        return traced_text(line.mes, "chat", self._chat, f"/{index}/mes", line.name)


def turn_inputs(context: SillyTavernContext, plan: ChatPlan, texts: LineTexts) -> TurnInputs | None:
    """Return the inputs that a plan shares with the next one; None if its texts may have other sources.

    Args:
        context: The inputs.
        plan: The plan.
        texts: The lines of the chat.
    """
    if context.hooks is not None or context.vectors is not None:
        return None
    lore = plan.lore_result.activated_entries if isinstance(plan.lore_result, WorldInfoResult) else ()
    more = [str(getattr(context.metadata, name)) for name in _METADATA_TEXTS]
    return TurnInputs(context, lore, more, texts.lines, _words)


def _words(line: object) -> object:
    return (line.name, line.mes) if isinstance(line, ChatMessage) else None


def place_of(block: Block, lines: Sequence[int] | None = None) -> object:
    """Return the place of a block, comparable between builds: its line, or its slot.

    Args:
        block: The block.
        lines: The lines of the build, if it did not have all.
    """
    index = line_of_block(block)
    if index is None:
        return block.slot
    if not lines:
        return index
    return lines[index] if index < len(lines) else lines[-1] + 1 + index - len(lines)  # the user's new message


def line_of_block(block: Block) -> int | None:
    """Return the index of a block's chat line; None if it is not made from one."""
    source = block.source
    if block.token_budget_group != "history" or not is_mapping(source) or source.get("kind") != "history":
        return None
    index = source.get("id")
    return index if isinstance(index, int) else None


def _chat_name(context: SillyTavernContext) -> str:
    return context.chat_id or "chat"


class EntryTexts:
    """Returns the texts of lore entries, traced to their books."""

    def __init__(self, context: SillyTavernContext, services: Services) -> None:
        self._context = context
        self._services = services
        self._places: dict[int, tuple[WorldBook, int, str]] | None = None

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
        if self._places is None:
            self._places = {
                id(raw): (book, index, key)
                for book in selected_books(self._context, self._services).books
                for index, (key, raw) in enumerate(book.raw_entries())
            }
        found = self._places.get(id(entry.raw))
        if found is None:
            return entry.world, f"/{entry.uid}/content"
        book, index, key = found
        card = self._context.card
        if card is not None and book is self._services.embedded_book(card):
            home = fields_home(card.raw)[1] if card.raw else "/data"
            return book.name, f"{home}/character_book/entries/{index}/content"
        return book.name, f"/entries/{escaped(key)}/content"


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
        for key in _METADATA_TEXTS
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
