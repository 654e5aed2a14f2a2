"""SillyTavern's budgeted assembly: fixed prompts first, then history and examples while they fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import join
from tavernkit._values import FrozenObject
from tavernkit.cache._profiles import CacheProfile
from tavernkit.silly_tavern._chat.core_chat import CoreMessage, role_of
from tavernkit.silly_tavern._chat_completion.history_messages import HistoryConverter
from tavernkit.silly_tavern._chat_completion.layout import (
    BudgetOverflowError,
    ExampleBlock,
    HistoryEntry,
    Injected,
    Layout,
    MessageCollection,
    PlacedMessage,
    Slots,
)
from tavernkit.silly_tavern._chat_completion.prompt_collection import (
    CHAT_HISTORY,
    DIALOGUE_EXAMPLES,
    JAILBREAK,
    MAIN,
    START,
    Prompt,
)
from tavernkit.silly_tavern._provenance import TITLES, message_source, source
from tavernkit.silly_tavern._token_counting.messages import PRIMING_TOKENS, MessageCounter

FIRST_PROMPTS = (
    "worldInfoBefore",
    MAIN,
    "worldInfoAfter",
    "charDescription",
    "charPersonality",
    "scenario",
    "personaDescription",
)
"""Prompts that are placed first. Their order decides which one no longer fits, not where they are."""

LORE_PROMPTS = frozenset({"worldInfoBefore", "worldInfoAfter"})


@dataclass(slots=True)
class LeftOut:
    """Something that did not fit the budget."""

    messages: list[PlacedMessage]
    reason: str
    bundled: bool = False


@dataclass(slots=True)
class Assembled:
    """The result of assembling a layout."""

    slots: Slots
    overflow: BudgetOverflowError | None = None
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])
    unreached: list[HistoryEntry] = field(default_factory=list["HistoryEntry"])
    unreached_examples: list[ExampleBlock] = field(default_factory=list[ExampleBlock])
    cut: int | None = None
    """With a ``HistoryCut``, the number of the first chat line that is in the prompt."""


@dataclass(frozen=True, slots=True)
class HistoryCut:
    """Cuts the history in larger steps than SillyTavern, so that many prompts begin the same way."""

    profile: CacheProfile
    stored: int | None = None
    """The first chat line in the previous prompt."""
    turns: int = 0
    """How many more turns are expected; 0 for as many as there were."""
    active: frozenset[str] = frozenset()
    """Active lore: if its line is removed, it is repeated."""
    examples: int = 0
    """Tokens of example dialogue, which is removed when it no longer fits."""


def assemble(
    layout: Layout,
    budget: float,
    counter: MessageCounter,
    converter: HistoryConverter,
    history_cut: HistoryCut | None = None,
) -> Assembled:
    """Assemble a layout within a budget. Fixed content that does not fit ends the assembly at that point.

    Args:
        layout: What may go into the prompt.
        budget: The available tokens.
        counter: Counts messages.
        converter: Turns entries of the history into messages.
        history_cut: How the history is cut, if not as in SillyTavern, which drops the oldest message every turn.
    """
    assembly = _Assembly(layout, budget, counter, converter, history_cut)
    try:
        assembly.run()
    except BudgetOverflowError as overflow:
        assembly.result.overflow = overflow
    return assembly.result


class _Assembly:
    def __init__(
        self,
        layout: Layout,
        budget: float,
        counter: MessageCounter,
        converter: HistoryConverter,
        history_cut: HistoryCut | None,
    ) -> None:
        self.layout = layout
        self.history_cut = history_cut
        self.converted: dict[int, list[PlacedMessage]] = {}
        """Messages by the identity of their entry: entries are expanded once."""
        self.counter = counter
        self.converter = converter
        self.slots = Slots(budget)
        self.result = Assembled(self.slots)

    def run(self) -> None:
        slots, layout = self.slots, self.layout
        slots.reserve(PRIMING_TOKENS)
        for identifier in FIRST_PROMPTS:
            self.place(identifier)
        control = MessageCollection("controlPrompts", [self.message(prompt) for prompt in layout.control])
        slots.reserve(control.tokens)
        self.place_own_prompts()
        self.insert_around_main()
        if layout.tools_text is not None:
            slots.reserve(self.counter.message("user", layout.tools_text))
        if layout.prefill is not None:
            prefill = self.prefill_message(layout.prefill)
            control.messages.append(prefill)
            slots.reserve(prefill.tokens if prefill.sent else 0)
        if layout.pin_examples:
            self.fill_examples()
            self.fill_history()
        else:
            self.fill_history()
            self.fill_examples()
        slots.free(control.tokens)
        if control.messages:
            slots.place_at_end(control)

    def place_own_prompts(self) -> None:
        for identifier in ("nsfw", JAILBREAK):
            self.place(identifier)
        for prompt in self.layout.collection:
            if prompt.custom and not prompt.in_chat:
                # By identifier: one that is listed twice has one place and is paid for twice, as in SillyTavern.
                self.place(prompt.identifier)
        self.place("enhanceDefinitions")
        if self.layout.bias:
            self.place("bias")

    def place(self, identifier: str) -> None:
        collection = self.layout.collection
        index = collection.index(identifier)
        # A main prompt that is switched off keeps its place, empty: texts are inserted around it.
        if index < 0 or (identifier != MAIN and collection.disabled(identifier)):
            return
        prompt = collection.prompts[index]
        if not prompt.in_chat:
            self.slots.place(index, MessageCollection(identifier, [self.message(prompt)]))

    def message(self, prompt: Prompt) -> PlacedMessage:
        role = prompt.role or "system"
        return PlacedMessage(
            identifier=prompt.identifier,
            role=role,
            content=prompt.content,
            tokens=self.counter.message(role, prompt.content) if prompt.content else 0,
            source=prompt.source,
            group="lore" if prompt.identifier in LORE_PROMPTS else "system",
        )

    def insert_around_main(self) -> None:
        main = self.slots.get(MAIN)
        if main is None:
            return
        for prompt in self.layout.around_main:
            # Each goes to the very start, so of several the last one comes first.
            self.slots.insert(main, self.message(prompt), at_start=prompt.position == START)

    def prefill_message(self, entry: CoreMessage) -> PlacedMessage:
        # SillyTavern does not expand the macros of a message that it sends as a prefill.
        content = join("\n\n", (part for part in (self.layout.prefill_prefix, self.converter.content(entry)) if part))
        role, name = role_of(entry.line), self.converter.name(entry)
        return PlacedMessage(
            identifier="continuePrefill",
            role=role,
            content=content,
            tokens=self.counter.message(role, content, name) if content or name else 0,
            source=message_source(
                "plan_assembly", entry.index, entry.line.name, "the message being continued", entry.additions
            ),
            name=name,
            history_index=entry.index,
        )

    def fill_history(self) -> None:
        slots, layout = self.slots, self.layout
        index = layout.collection.index(CHAT_HISTORY)
        if index < 0:
            return
        history = slots.place(index, MessageCollection(CHAT_HISTORY))
        new_chat = self.system_line("newMainChat", str(layout.new_chat or ""), "the chat begins after it")
        slots.reserve(new_chat.tokens)
        nudge = self.message(layout.group_nudge) if layout.group_nudge is not None else None
        slots.reserve(nudge.tokens if nudge is not None else 0)
        continued = self.continued_messages()
        slots.reserve(continued.tokens)
        self.replace_empty_user_message(history)
        if self.history_cut is None or not self.keep_from_cut(history, self.history_cut):
            self.walk(history)
        slots.free(new_chat.tokens)
        slots.insert(history, new_chat, at_start=True)
        if nudge is not None:
            slots.free(nudge.tokens)
            slots.insert(history, nudge)
        slots.free(continued.tokens)
        if continued.messages:  # after everything so far, the post-history instructions included
            slots.place_at_end(continued)

    def continued_messages(self) -> MessageCollection:
        """Return the message to continue and the nudge after it; the message is removed from the history."""
        group = MessageCollection("continueNudge")
        layout = self.layout
        if layout.continue_nudge is None:
            return group
        nudge = self.system_line("continueNudge", str(layout.continue_nudge), "asks to continue the last message")
        for position in range(len(layout.history) - 1, -1, -1):
            entry = layout.history[position]
            if not isinstance(entry, Injected):
                del layout.history[position]
                group.messages.append(self.continued_message(entry))
                break
        group.messages.append(nudge)
        return group

    def continued_message(self, entry: CoreMessage) -> PlacedMessage:
        # It loses its name, even if names are sent in their own field.
        role, content = role_of(entry.line), self.converter.expand(self.converter.content(entry))
        return PlacedMessage(
            identifier=None,
            role=role,
            content=content,
            tokens=self.counter.message(role, content) if content else 0,
            source=message_source(
                "plan_assembly", entry.index, entry.line.name, "the message being continued", entry.additions
            ),
            history_index=entry.index,
        )

    def replace_empty_user_message(self, history: MessageCollection) -> None:
        """Add a user message if the history would end with the character's words.

        Texts at depth 0 count as the end of the history. The added text is neither trimmed nor expanded.
        """
        layout = self.layout
        if not layout.send_if_empty or not layout.history:
            return
        newest = layout.history[-1]
        role = newest.role if isinstance(newest, Injected) else role_of(newest.line)
        tokens = self.counter.message("user", layout.send_if_empty)
        if role == "assistant" and self.slots.affords(tokens):
            replacement = PlacedMessage(
                identifier="emptyUserMessageReplacement",
                role="user",
                content=layout.send_if_empty,
                tokens=tokens,
                source=_preset_text("send_if_empty", "the chat would end with the character's words"),
                group="history",
            )
            self.slots.insert(history, replacement)

    def walk(self, history: MessageCollection) -> None:
        """Take history from the newest entry until one does not fit; older ones are not tried, even shorter ones.

        An empty message is not sent, but its name counts in the test.
        """
        layout, slots = self.layout, self.slots
        position = len(layout.core) - 1 - self.taken_from_core()
        newest_first: list[PlacedMessage] = []
        for index in range(len(layout.history) - 1, -1, -1):
            messages = self.convert(index, position)
            if not isinstance(layout.history[index], Injected):
                position -= 1
            if not slots.affords(sum([message.tokens for message in messages])):
                self.result.left_out.append(LeftOut(messages, "does not fit the token budget", len(messages) > 1))
                self.result.unreached = layout.history[:index]
                break
            for message in reversed(messages):
                if message.content or message.sent:
                    slots.reserve(message.tokens)
                    newest_first.append(message)
        history.messages[:0] = reversed(newest_first)

    def convert(self, index: int, position: int) -> list[PlacedMessage]:
        """Expand an entry of the history, once; ``position`` counts the chat messages before it."""
        entry = self.layout.history[index]
        messages = self.converted.get(id(entry))
        if messages is None:
            messages = self.converter.convert(entry, f"{CHAT_HISTORY}-{index + 1}", position)
            self.converted[id(entry)] = messages
        return messages

    def keep_from_cut(self, history: MessageCollection, how: HistoryCut) -> bool:
        """Keep everything from a position on; return False if not even the newest message fits."""
        from tavernkit.silly_tavern._caching.cutting import cut_history

        if not self.layout.pin_examples and DIALOGUE_EXAMPLES in self.layout.collection:
            groups = self.example_groups()
            how = replace(how, examples=sum(message.tokens for group in groups for message in group))
        kept = cut_history(self.layout, self.slots, self.convert, self.counter, how, self.taken_from_core())
        if kept is None:
            return False
        for message in kept.messages:
            self.slots.reserve(message.tokens)
        history.messages[:0] = kept.messages
        self.result.cut = kept.cut
        self.result.unreached = kept.unreached
        self.result.left_out += [LeftOut(messages, kept.REASON) for messages in kept.dropped]
        return True

    def taken_from_core(self) -> int:
        """Return how many of the newest messages of the core chat are no longer in the history."""
        history = self.layout.history
        return len(self.layout.core) - list(map(type, history)).count(CoreMessage)

    def fill_examples(self) -> None:
        layout, slots = self.layout, self.slots
        index = layout.collection.index(DIALOGUE_EXAMPLES)
        if index < 0:
            return
        examples = slots.place(index, MessageCollection(DIALOGUE_EXAMPLES))
        if self.history_cut is not None and not layout.pin_examples and not self.all_examples_fit():
            return
        for number, group in enumerate(self.example_groups()):
            # Counts empty messages too, which are not sent.
            if not slots.affords(sum(message.tokens for message in group)):
                self.result.left_out.append(LeftOut(group, "does not fit the token budget", True))
                self.result.unreached_examples = layout.examples[number + 1 :]
                break
            for message in group:
                slots.insert(examples, message)

    def example_groups(self) -> Iterator[list[PlacedMessage]]:
        """Yield the examples, each with the line before it."""
        header_text = str(self.layout.example_header or "")
        for number, block in enumerate(self.layout.examples):
            header = self.system_line("newChat", header_text, "an example begins after it")
            header.group, header.bundle = "examples", f"example-{number}"
            yield [header, *self.example_messages(block, number)]

    def all_examples_fit(self) -> bool:
        """Return True if all examples fit permanently; otherwise leave all out.

        With a ``HistoryCut`` they must not come back when a cut makes room, because they are before the history.
        """
        groups = list(self.example_groups())
        if not self.result.cut and self.slots.affords(sum(each.tokens for group in groups for each in group)):
            return True
        reason = "makes room for the chat, and stays out so that prompts begin alike"
        self.result.left_out += [LeftOut(group, reason, True) for group in groups]
        return False

    def example_messages(self, block: ExampleBlock, number: int) -> list[PlacedMessage]:
        found = block.source("compilation", number)
        return [
            PlacedMessage(
                identifier=f"{DIALOGUE_EXAMPLES} {number}-{index}",
                role="system",
                content=message.content,
                tokens=self.counter.message("system", message.content, message.name),
                source=found,
                name=message.name,
                group="examples",
                bundle=f"example-{number}",
            )
            for index, message in enumerate(block.messages)
        ]

    def system_line(self, identifier: str, content: str, reason: str) -> PlacedMessage:
        return PlacedMessage(
            identifier=identifier,
            role="system",
            content=content,
            tokens=self.counter.message("system", content) if content else 0,
            source=_preset_text(identifier, reason),
        )


def _preset_text(identifier: str, reason: str) -> FrozenObject:
    return source("plan_assembly", "preset", identifier, TITLES[identifier], reason)


def placed(assembled: Assembled) -> Sequence[tuple[MessageCollection, PlacedMessage]]:
    """Return the messages in order, each with its collection.

    SillyTavern squashes system messages before it drops empty ones: an empty user or assistant prompt, for which
    nothing is sent, keeps the system messages around it apart. An empty system prompt does not.
    """
    found: list[tuple[MessageCollection, PlacedMessage]] = []
    apart = False
    for collection in assembled.slots:
        for message in collection.messages:
            if message.content or message.sent:
                if apart:  # a copy, because other builds may share the message
                    message, apart = replace(message, apart=True, block=None), False
                found.append((collection, message))
            elif message.role != "system":
                apart = True
    return found
