"""The prompt while it is put together: what stands where, and what the budget still allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tavernkit.silly_tavern.provenance import TITLES, title_of
from tavernkit.values import FrozenObject, JsonObject


@dataclass(slots=True)
class PlacedMessage:
    """A message that has, or may get, a place in the prompt. One without content and tool calls is never sent.

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

    @property
    def sent(self) -> bool:
        """Whether there is anything to send."""
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
        return sum(message.tokens for message in self.messages if message.sent)


class BudgetOverflowError(Exception):
    """Something that must be in the prompt does not fit; the assembly ends here."""

    def __init__(self, identifier: str | None, title: str, tokens: int, budget: int) -> None:
        super().__init__(f"{title} needs {tokens} tokens, {budget} are left")
        self.identifier = identifier
        self.title = title
        self.tokens = tokens
        self.budget = budget


class Slots:
    """Collections by slot, and the budget.

    A slot is an index into the prompt collection, so order does not depend on when something is placed. What goes "to
    the end" takes the slot after the highest one filled so far; a prompt placed there later takes that place without
    giving back the tokens.
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
        """Keep tokens for later; the budget may become negative, which a later check will notice."""
        self.budget -= tokens

    def free(self, tokens: int) -> None:
        """Give back what was reserved."""
        self.budget += tokens

    def affords(self, tokens: int) -> bool:
        """Whether this much fits."""
        return self.budget - tokens >= 0

    def place(self, slot: int, collection: MessageCollection) -> MessageCollection:
        """Put a collection into its slot and pay for it."""
        self._pay(collection.identifier, collection.title, collection.tokens)
        old = self._filled.get(slot)
        if old is not None and old.identifier != collection.identifier:
            self.overwritten.append(old)
        self._filled[slot] = collection
        return collection

    def place_at_end(self, collection: MessageCollection) -> None:
        """Put a collection after everything placed so far and pay for it."""
        self.place(max(self._filled, default=-1) + 1, collection)

    def insert(self, collection: MessageCollection, message: PlacedMessage, *, at_start: bool = False) -> None:
        """Add a message to a collection and pay for it.

        A message without anything to send is not added, but it too ends the assembly when the budget is negative.
        """
        self._pay(message.identifier, title_of(message.source), message.tokens if message.sent else 0)
        if not message.sent:
            return
        collection.messages.insert(0 if at_start else len(collection.messages), message)

    def _pay(self, identifier: str | None, title: str, tokens: int) -> None:
        if not self.affords(tokens):
            raise BudgetOverflowError(identifier, title, tokens, int(self.budget))
        self.budget -= tokens
