"""The layout of the prompt: what goes where, before and after the budget is applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias, TypeVar

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim
from tavernkit._text.traced import join
from tavernkit._values import FrozenObject, JsonObject
from tavernkit.prompt._block import Block
from tavernkit.silly_tavern._caching.frozen_lore import FrozenLine
from tavernkit.silly_tavern._chat.card_fields import ExampleMessage
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._chat.extension_prompts import ROLES, ExtensionPrompt, joined
from tavernkit.silly_tavern._chat_completion.prompt_collection import Prompt, PromptCollection
from tavernkit.silly_tavern._files.preset_prompts import DEFAULT_INJECTION_ORDER
from tavernkit.silly_tavern._limits import MAX_INJECTION_DEPTH
from tavernkit.silly_tavern._provenance import TITLES, source, title_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InChatPrompt:
    """A prompt of the list that goes into the chat."""

    identifier: str
    source: FrozenObject
    role: str | None
    content: str
    depth: int | float | None
    order: int | float | None = None


@dataclass(frozen=True, slots=True)
class Injected:
    """One message made from all prompts with the same depth, order value and role."""

    role: str
    content: str
    depth: int
    order: int | float
    prompts: tuple[InChatPrompt, ...] = ()
    extensions: tuple[ExtensionPrompt, ...] = ()
    frozen: FrozenLine | None = None
    """Lore that became a line of the history; its text is final."""


def injections(
    prompts: Sequence[InChatPrompt],
    extensions: Mapping[tuple[int, int], Sequence[ExtensionPrompt]],
    expand: Callable[[str], str],
) -> list[list[Injected]]:
    """Make the messages of every depth that has any, shallow depths first; in each, the one nearest the end first.

    Extension prompts join the bucket with order value 100 and are macro-expanded here, once per depth and role.
    """
    by_depth: dict[int, list[InChatPrompt]] = {}
    for prompt in prompts:
        # SillyTavern compares strictly: a depth with a fraction, or written as text, is never reached.
        if prompt.content and isinstance(prompt.depth, int):
            by_depth.setdefault(prompt.depth, []).append(prompt)
    depths = sorted({*by_depth, *(depth for depth, _ in extensions)})
    found: list[list[Injected]] = []
    for depth in depths:
        if 0 <= depth <= MAX_INJECTION_DEPTH:
            messages = _at_depth(depth, by_depth.get(depth, ()), extensions, expand)
            if messages:
                found.append(messages)
    return found


def inject(newest_first: list[T], messages: Sequence[Sequence[Injected]], wrap: Callable[[Injected], T]) -> None:
    """Put the messages of ``injections()`` into a chat whose newest message comes first.

    Depth 0 is after the newest message; depths beyond the chat are at its start, deeper ones first.
    """
    inserted = 0
    for group in messages:
        position = group[0].depth + inserted
        newest_first[position:position] = [wrap(message) for message in group]
        inserted += len(group)


def _at_depth(
    depth: int,
    prompts: Sequence[InChatPrompt],
    extensions: Mapping[tuple[int, int], Sequence[ExtensionPrompt]],
    expand: Callable[[str], str],
) -> list[Injected]:
    buckets: dict[int | float, list[InChatPrompt]] = {DEFAULT_INJECTION_ORDER: []}
    for prompt in prompts:
        buckets.setdefault(DEFAULT_INJECTION_ORDER if prompt.order is None else prompt.order, []).append(prompt)
    messages: list[Injected] = []
    # From the end of the chat upwards: in the prompt, low orders come first, and assistant, user, system.
    for order in sorted(buckets, reverse=True):
        for number, role in enumerate(ROLES):
            own = tuple(prompt for prompt in buckets[order] if prompt.role == role)
            others = tuple(extensions.get((depth, number), ())) if order == DEFAULT_INJECTION_ORDER else ()
            parts = [join("\n", (prompt.content for prompt in own)), expand(joined(others)) if others else ""]
            # Only an empty part is left out; one of white space leaves an empty line, as in SillyTavern.
            content = join("\n", (trim(part) for part in parts if part))
            if content:
                messages.append(Injected(role, content, depth, order, own, others))
    return messages


class LateText:
    """A text that is expanded on first use: macros of unused texts must not run."""

    __slots__ = ("_expand", "_text", "raw")

    def __init__(self, raw: str, expand: Callable[[str], str]) -> None:
        self.raw = raw
        self._expand = expand
        self._text: str | None = None

    def __str__(self) -> str:
        if self._text is None:
            self._text = self._expand(self.raw)
        return self._text


HistoryEntry: TypeAlias = "CoreMessage | Injected"
"""A message of the chat, or one made from prompts in the chat."""


@dataclass(frozen=True, slots=True)
class ExampleBlock:
    """One example dialogue with its source: as messages, or as text for text completion."""

    messages: tuple[ExampleMessage, ...]
    kind: str = "card field"
    id: str = "mes_example"
    title: str = ""
    reason: str = "example dialogue of the card"
    text: str = ""

    def source(self, stage: str, number: int) -> FrozenObject:
        """Its provenance; ``number`` counts the examples of this prompt from 0."""
        return source(stage, self.kind, self.id, self.title or f"example dialogue {number + 1}", self.reason)


@dataclass(slots=True)
class Layout:
    """The input of the assembly. ``history`` is oldest first, including injections."""

    collection: PromptCollection
    control: list[Prompt] = field(default_factory=list[Prompt])
    bias: bool = False
    around_main: list[Prompt] = field(default_factory=list[Prompt])
    tools_text: str | None = None
    core: Sequence[CoreMessage] = ()
    history: list[HistoryEntry] = field(default_factory=list["HistoryEntry"])
    prefill: CoreMessage | None = None
    prefill_prefix: str = ""
    continued_text: str = ""
    new_chat: LateText | None = None
    continue_nudge: LateText | None = None
    group_nudge: Prompt | None = None
    send_if_empty: str = ""
    example_header: LateText | None = None
    examples: list[ExampleBlock] = field(default_factory=list[ExampleBlock])
    pin_examples: bool = False


@dataclass(slots=True)
class PlacedMessage:
    """A message with a place in the prompt. A message without content and tool calls is never sent.

    A message that is ``apart`` is not squashed into the one before it.
    """

    identifier: str | None
    role: str
    content: str
    tokens: int
    source: FrozenObject
    name: str | None = None
    parts: Sequence[JsonObject] | None = None
    tool_calls: Sequence[JsonObject] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    group: str = "system"
    depth: int | None = None
    order: int = 100
    bundle: str | None = None
    history_index: int | None = None
    apart: bool = False
    block: Block | None = None
    """Its cached block, which is kept from turn to turn."""
    kept: bool = False
    """True if later turns use this message again, and with it its block."""

    @property
    def sent(self) -> bool:
        """True if there is anything to send. Loops over a long chat look at ``content`` first: it is faster."""
        return bool(self.content or self.parts or self.tool_calls)


@dataclass(slots=True)
class MessageCollection:
    """Messages under one prompt identifier."""

    identifier: str
    messages: list[PlacedMessage] = field(default_factory=list[PlacedMessage])

    @property
    def title(self) -> str:
        """What people call it."""
        return title_of(self.messages[0].source) if self.messages else TITLES.get(self.identifier, self.identifier)

    @property
    def tokens(self) -> int:
        """What its messages cost."""
        return sum([message.tokens for message in self.messages if message.content or message.sent])


class BudgetOverflowError(Exception):
    """A required part does not fit; the assembly ends here."""

    def __init__(self, identifier: str | None, title: str, tokens: int, budget: int) -> None:
        super().__init__(f"{title} needs {tokens} tokens, {budget} are left")
        self.identifier = identifier
        self.title = title
        self.tokens = tokens
        self.budget = budget


class Slots:
    """Collections by slot, and the budget.

    A slot is an index into the prompt collection, so order does not depend on when something is placed. Something
    placed "at the end" gets the slot after the highest one filled so far; a prompt placed there later replaces it
    without returning the tokens.
    """

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self._filled: dict[int, MessageCollection] = {}
        self.overwritten: list[MessageCollection] = []

    def __iter__(self) -> Iterator[MessageCollection]:
        return (self._filled[slot] for slot in sorted(self._filled))

    def get(self, identifier: str) -> MessageCollection | None:
        """The collection of an identifier."""
        return next((each for each in self._filled.values() if each.identifier == identifier), None)

    def reserve(self, tokens: int) -> None:
        """Reserve tokens; the budget may become negative, which a later check notices."""
        self.budget -= tokens

    def free(self, tokens: int) -> None:
        """Return reserved tokens."""
        self.budget += tokens

    def affords(self, tokens: int) -> bool:
        """Return True if this many tokens fit."""
        return self.budget - tokens >= 0

    def place(self, slot: int, collection: MessageCollection) -> MessageCollection:
        """Put a collection into its slot and subtract its tokens."""
        self._pay(collection.identifier, collection.title, collection.tokens)
        old = self._filled.get(slot)
        if old is not None and old.identifier != collection.identifier:
            self.overwritten.append(old)
        self._filled[slot] = collection
        return collection

    def place_at_end(self, collection: MessageCollection) -> None:
        """Put a collection after everything placed so far and subtract its tokens."""
        self.place(max(self._filled, default=-1) + 1, collection)

    def insert(self, collection: MessageCollection, message: PlacedMessage, *, at_start: bool = False) -> None:
        """Add a message to a collection and subtract its tokens.

        An empty message is not added, but it also ends the assembly if the budget is negative.
        """
        self._pay(message.identifier, title_of(message.source), message.tokens if message.sent else 0)
        if not message.sent:
            return
        collection.messages.insert(0 if at_start else len(collection.messages), message)

    def _pay(self, identifier: str | None, title: str, tokens: int) -> None:
        if not self.affords(tokens):
            raise BudgetOverflowError(identifier, title, tokens, int(self.budget))
        self.budget -= tokens
