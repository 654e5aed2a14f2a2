"""The unit a prompt is composed of, and what was left out of one."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenJson, FrozenObject, JsonObject, freeze, freeze_object, thaw
from tavernkit.errors import ConfigError
from tavernkit.prompt._message import Message

KNOWN_INSERTION_POINTS = (
    "relative",
    "in_chat",
    "before_char_defs",
    "after_char_defs",
    "before_example_messages",
    "after_example_messages",
    "top_of_an",
    "bottom_of_an",
    "outlet",
)
"""Insertion points with a meaning of their own. Any other name is allowed."""

KNOWN_BUDGET_GROUPS = ("system", "examples", "lore", "history", "custom", "default")
"""Budget groups that the trimmer knows. Any other name is allowed."""


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a prompt, with where it goes, what it costs to lose, and where it came from.

    ``metadata["source"]`` is its provenance (stage, kind, id, name, title for people, reason); blocks that share
    ``metadata["eviction_bundle"]`` are kept or dropped together. ``message_metadata`` goes to the message's metadata.
    """

    role: str
    """Who says it: ``system``, ``user``, ``assistant`` or ``tool``."""
    content: str
    """The text."""
    id: str = field(default_factory=_new_id)
    """A unique id; made up by default."""
    name: str | None = None
    """The speaker's name, for messages that have one."""
    attachments: Sequence[FrozenJson] | None = None
    """Pictures and files of the message, as ``Attachment.to_dict()`` gives them."""
    message_metadata: FrozenObject | None = None
    slot: str | None = None
    """The place in the platform's layout that it fills, such as ``main`` or ``chatHistory``."""
    enabled: bool = True
    """False takes it out of the prompt. Trimming disables what does not fit."""
    removable: bool = True
    """False if trimming must not take it out."""
    insertion_point: str = "relative"
    """Where it goes: ``relative`` (in order), ``in_chat`` (at ``depth``), or another name of the platform."""
    depth: int = 0
    """Messages between it and the end of the chat; 0 is after the last message. Counts with ``in_chat``."""
    order: int = 100
    """Sorts blocks at the same place; smaller numbers come first."""
    priority: int = 100
    """For the trim strategy ``priority``: the lowest numbers are left out first."""
    token_budget_group: str = "default"
    """The group that trimming counts it in: ``system``, ``examples``, ``lore``, ``history``, ``custom`` or
    ``default``."""
    tags: Sequence[str] = ()
    """The application's own labels."""
    metadata: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise ConfigError(f"Block.depth must be 0 or more, not {self.depth}")
        if self.attachments is not None:
            object.__setattr__(self, "attachments", freeze(self.attachments))
        if self.message_metadata is not None:
            object.__setattr__(self, "message_metadata", freeze_object(self.message_metadata))
        if self.tags:
            object.__setattr__(self, "tags", tuple(self.tags))
        if self.metadata is not EMPTY_OBJECT:
            object.__setattr__(self, "metadata", freeze_object(self.metadata))

    def replace(self, **changes: object) -> Block:
        """Return a changed copy with the same id (unless the id is changed)."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    def enable(self) -> Block:
        """Return an enabled copy."""
        return with_field(self, "enabled", True)

    def disable(self) -> Block:
        """Return a disabled copy."""
        return with_field(self, "enabled", False)

    @property
    def disabled(self) -> bool:
        """Whether the block is left out of the messages."""
        return not self.enabled

    @property
    def in_chat(self) -> bool:
        """Whether the block goes into the chat at a depth."""
        return self.insertion_point == "in_chat"

    @property
    def relative(self) -> bool:
        """Whether the block stands where it is in the order."""
        return self.insertion_point == "relative"

    @property
    def source(self) -> FrozenJson:
        """Its provenance, ``metadata["source"]``, or nothing."""
        return self.metadata.get("source")

    def to_message(self) -> Message:
        """Return what a dialect gets of it."""
        return Message(
            role=self.role,
            content=self.content,
            name=self.name,
            attachments=self.attachments,
            metadata=self.message_metadata,
        )

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {each.name: thaw(getattr(self, each.name)) for each in dataclasses.fields(self)}


def with_field(block: Block, changed: str, value: bool | str) -> Block:
    """Return a copy with another flag or text: every other field was checked and frozen when the block was made.

    Args:
        block: The block.
        changed: The name of the field.
        value: Its new value.
    """
    twin = object.__new__(Block)
    for name in Block.__slots__:
        object.__setattr__(twin, name, getattr(block, name))
    object.__setattr__(twin, changed, value)
    return twin


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that could have been in the prompt and is not.

    ``kind`` says what it is (``lore_entry``, ``history``, ``example``, ``prompt``, ``injection``), ``id`` and ``name``
    which one, ``reason`` why it is out, in words a person can read.
    """

    kind: str
    id: str
    reason: str
    name: str | None = None
    tokens: int | None = None
    """What it would have cost, if that was counted."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Something that is elsewhere than the platform would put it, because a cache strategy moved it."""

    kind: str
    """What it is, such as ``lore_entry`` or ``prompt``."""
    id: str
    """Which one it is."""
    name: str
    """What people call it."""
    reference: str
    """Where the platform puts it."""
    place: str
    """Where it is."""
    reason: str
    """Why it was moved."""
    tokens: int | None = None
    """What it costs, if that was counted."""
