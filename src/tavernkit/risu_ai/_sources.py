"""The sources of a RisuAI build: its inputs, with every text that can be in a prompt traced."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial

from tavernkit._text.traced import Origin
from tavernkit._values import FrozenObject, is_mapping
from tavernkit.prompt._block import Block
from tavernkit.prompt._context import BuildState, Context, DrawnNumbers
from tavernkit.prompt._hooks import followed_by
from tavernkit.prompt._known_texts import KnownTexts, TurnInputs
from tavernkit.prompt._line_forms import KnownLine, LineForm, WrittenLines
from tavernkit.prompt._traced_inputs import TracedCopies, traced_fields, traced_json, traced_text, traced_user, twin
from tavernkit.risu_ai._budget.trimming import Dropped
from tavernkit.risu_ai._chat.chat_log import chat_id, sent_messages
from tavernkit.risu_ai._chat.chat_memory import ChatMemory
from tavernkit.risu_ai._context import RisuAIContext
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._lorebook.book import Lorebook
from tavernkit.risu_ai._lorebook.result import LorebookResult
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, RisuModule
from tavernkit.risu_ai._plan import RisuPlan
from tavernkit.risu_ai._prompt_template.cards import TemplateCard
from tavernkit.risu_ai._steps.plan_assembly import STOPPED
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
NEWEST_MESSAGES = 8
"""How many of the newest messages are traced in any case: functions such as ``{{lastmessage}}`` give them."""

SHORT_CHAT = 40
"""How many of the newest messages a build for a source map has, if that gives the same texts."""

_MESSAGE = "message"
"""Stands for the user's new message among the kinds of messages."""

_BUILT_IN_TEXTS = ("chain_of_thought", "asset_command")


class MessageTexts:
    """Returns messages of the chat, traced to their places in it."""

    def __init__(
        self,
        chat: RisuChat,
        message: str,
        plan: RisuPlan,
        known_texts: KnownTexts,
        forms: Mapping[object, LineForm],
    ) -> None:
        """Find the messages that are in a plan unchanged, and those that are written alike.

        Args:
            chat: The chat as the build saw it.
            message: The user's new message.
            plan: The plan.
            known_texts: What the last map left.
            forms: Forms of messages that are known.
        """
        self.chat = chat
        self._message = message
        self._name = chat_name(chat)
        self.known: dict[int, KnownLine] = {}
        """Messages that are in the plan, by the ids of their blocks."""
        self.whole: dict[int, KnownLine] = {}
        """Those that need not be built: they are blocks unchanged, or written as others are."""
        self.others: list[tuple[int, Block, object]] = []
        """The other blocks that are sent: their indices in the plan, and their places in the chat, or slots."""
        messages, stored = chat.messages, plan.chat.messages
        count = len(messages)
        self.changed: set[int] = set(range(max(count - NEWEST_MESSAGES, 0), count))
        """Messages that are in the plan in another form, and the newest ones."""
        # A block has the index of its message among those sent; the build may have added the user's.
        self.told_apart = tells_apart(chat, plan)
        self.written = WrittenLines(forms, known_texts.formless, ())
        """Messages that are not sent as they are stored, and not known from another plan."""
        if not self.told_apart:
            self.changed.update(range(count))
            self.others += [(index, block, place_of(block)) for index, block in enumerate(plan.blocks) if block.enabled]
            return
        written: list[tuple[int, KnownLine]] = []
        for index, block in enumerate(plan.blocks):
            key = id(block)
            known = known_texts.lines.get(key)
            if (
                known is None
                or known.block is not block
                or known.place >= count
                or known.line is not messages[known.place]
                or known.chat != self._name
                or not (known.whole or (known.form is not None and known.form is forms.get(known.kind)))
            ):
                place = place_of_block(block)
                if (
                    place is None
                    or place > count
                    or (place == count and (stored[count].data != message or "{" in message))
                ):
                    if block.enabled:
                        self.others.append((index, block, block.slot if place is None else place))
                    continue
                known = self._found_message(block, place)
            if known.place < count:
                self.known[key] = known
            if known.form is not None or (known.whole and stored[known.place].data == block.content):
                self.whole[key] = known
            elif block.enabled and known.kind is not None:
                written.append((index, known))
            else:
                self.changed.add(known.place)
                if block.enabled:
                    self.others.append((index, block, known.place))
        self.written = WrittenLines(forms, known_texts.formless, written)
        self.whole.update((id(line.block), line) for line in self.written.alike)
        built = [*self.written.single, *self.written.examples]
        self.others += [(number, line.block, line.place) for number, line in built]
        self.changed.update([line.place for _, line in built])

    def _found_message(self, block: Block, place: int) -> KnownLine:
        """Return the message of a block; the user's new one comes after the last."""
        kind: object = None
        if place == len(self.chat.messages):
            line, words, written = None, self._message, _MESSAGE
        else:
            line = self.chat.messages[place]
            words, written = line.data, (line.role, line.saying)
        whole = words == block.content
        if not whole and words and words in block.content:
            before, _, after = block.content.partition(words)
            kind = written, before, after
        return KnownLine(block, place, line, self._name, whole=whole, kind=kind)

    def learn_forms(self, contents: Sequence[str]) -> bool:
        """Learn the forms of messages from those that were traced; return False if some are left without one.

        Args:
            contents: The texts of all blocks of the plan, traced where they have to be.
        """
        return self.written.learn(contents, self._origins)

    def forget_forms(self) -> bool:
        """Leave messages that are written alike to a build of all; return True if there are some."""
        places = [line.place for line in self.whole.values() if not line.whole]
        self.whole = {key: line for key, line in self.whole.items() if line.whole}
        self.changed.update(places)
        return bool(places)

    def _origins(self, known: KnownLine) -> tuple[Origin, Origin]:
        """Return the places of a message's words and of its name, which RisuAI does not store with it."""
        if known.place == len(self.chat.messages):
            return Origin("message", "", "", self._message), Origin("message", "", "/name", "")
        message = self.chat.messages[known.place]
        pointer = f"/message/{known.place}"
        return (
            Origin("chat", self._name, f"{pointer}/data", message.data, message.role),
            Origin("chat", self._name, f"{pointer}/name", ""),
        )

    def kept(self, plan: RisuPlan, known: Iterable[int]) -> Sequence[int]:
        """Return the messages of a prompt, without those that are known, unchanged or left out.

        Returns all of them if the result may depend on their number.

        Args:
            plan: The plan.
            known: Ids of blocks whose texts are known.
        """
        count = len(self.chat.messages)
        if not self.told_apart or plan.memory_data or count <= 2 * SHORT_CHAT:
            return range(count)
        newest = range(count - SHORT_CHAT, count)
        places = [line.place for key in known if (line := self.known.get(key)) is not None]
        self.changed.difference_update([place for place in places if place < newest.start])
        return [*sorted(place for place in self.changed if place < newest.start), *newest]

    def has(self, block: Block) -> bool:
        """Return True if a block is an unchanged message of the chat, or the user's new message."""
        place = place_of_block(block) if self.told_apart else None
        if place == len(self.chat.messages):
            return id(block) in self.whole
        return place is not None and place < len(self.chat.messages) and self.chat.messages[place].data == block.content

    def of_block(self, block: Block) -> str:
        """Return the text of a block; for an unchanged message of the chat, with its place."""
        known = self.whole.get(id(block))
        if known is not None:
            if not known.text:
                form = known.form
                known.text = (
                    self._text(known.place) if form is None else form.write(block.content, *self._origins(known))
                )
            return known.text
        if type(block.content) is not str or not self.has(block):
            return block.content
        place = place_of_block(block)
        assert place is not None
        return self._text(place)

    def _text(self, place: int) -> str:
        if place == len(self.chat.messages):
            return traced_text(self._message, "message", "", "")
        return message_text(self.chat.messages[place], place, self._name)

    def unused(self, plan: RisuPlan, dropped: Iterable[Dropped]) -> Iterator[tuple[str, str]]:
        """Yield the messages that are not in a prompt, each with the reason.

        Args:
            plan: The plan.
            dropped: What the build left out.
        """
        used = {str(block.metadata.get("memo")) for block in plan.enabled_blocks}
        evicted = {str(block.metadata.get("memo")) for block in plan.blocks if not block.enabled}
        reasons = {each.message.memo: each.reason for each in dropped}
        chat = ChatMemory().with_ids(self.chat)
        kept = {chat_id(each) for each in sent_messages(chat)[0]}
        for index, message in enumerate(chat.messages):
            memo = chat_id(message)
            if memo in used:
                continue
            if plan.stopped:
                reason = STOPPED
            elif memo not in kept:
                reason = "turned off in the chat" if message.raw.get("disabled") else "a later message cuts it off"
            elif memo in evicted:
                reason = "does not fit the token budget"
            else:
                reason = reasons.get(memo, "the prompt template has no place for it")
            yield message_text(self.chat.messages[index], index, self._name), reason


def place_of_block(block: Block) -> int | None:
    """Return the place of a block's message; None if it is not made from one."""
    source = block.metadata.get("source")
    if not is_mapping(source) or source.get("stage") != "chat" or source.get("kind") != "message":
        return None
    place = source.get("id")
    return int(place) if isinstance(place, str) and place.isdecimal() else None


def has_own_chat(context: RisuAIContext, built: RisuAIContext) -> bool:
    """Return True if hooks left the chat and the finished prompt alone.

    Args:
        context: The inputs.
        built: The same after hooks changed them.
    """
    return (context.hooks is None or context.hooks.only_before) and built.chat is context.chat


def tells_apart(chat: RisuChat, plan: RisuPlan) -> bool:
    """Return True if the number of a block's message is its place in the chat.

    Args:
        chat: The chat as the build saw it.
        plan: The plan.
    """
    count = len(chat.messages)
    return len(sent_messages(chat)[0]) == count and len(plan.chat.messages) in (count, count + 1)


def turn_inputs(context: RisuAIContext, plan: RisuPlan, chat: RisuChat) -> TurnInputs | None:
    """Return the inputs that a plan shares with the next one; None if its texts may have other sources.

    Args:
        context: The inputs that hooks left.
        plan: The plan.
        chat: The chat as the build saw it.
    """
    if plan.memory_data or not tells_apart(chat, plan):
        return None
    lore = [active.index for active in plan.lore_result.actives] if isinstance(plan.lore_result, LorebookResult) else ()
    return TurnInputs(context, lore, [chat.note], chat.messages, _words)


def _words(message: object) -> object:
    return (message.role, message.data) if isinstance(message, RisuMessage) else None


def place_of(block: Block, messages: Sequence[int] | None = None) -> object:
    """Return the place of a block, comparable between builds: that of its message, or its slot.

    Args:
        block: The block.
        messages: The places of the build's messages, if it did not have all.
    """
    place = place_of_block(block)
    if place is None:
        return block.slot
    if not messages:
        return place
    # The user's new message follows them.
    return messages[place] if place < len(messages) else messages[-1] + 1 + place - len(messages)


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


def chat_name(chat: RisuChat) -> str:
    """Name a chat."""
    return chat.name or chat.id or "chat"


def message_text(message: RisuMessage, index: int, chat: str) -> str:
    """Trace the text of a message to its place in a chat of that name."""
    return traced_text(message.data, "chat", chat, f"/message/{index}/data", message.role)


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
