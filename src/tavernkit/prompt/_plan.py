"""The frozen result of a build."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, overload

from tavernkit._atomic import write_atomically
from tavernkit._dataclass import dataclass, replaced
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, counted, freeze_object, thaw
from tavernkit.budget._report import TrimReport
from tavernkit.cards._source import FileContent
from tavernkit.errors import ConfigError, Warn, log_warning, refuse_warning
from tavernkit.lore import LoreResult
from tavernkit.prompt._block import Block, Message, Moved, Omission, dump_block, merge_in_chat, squash_system
from tavernkit.prompt._trace import Trace
from tavernkit.stores._variables import VariableChanges

if TYPE_CHECKING:
    from tavernkit.cache._profiles import CacheProfile
    from tavernkit.models._request import Request, WireRequest
    from tavernkit.prompt._explain import Explanation
    from tavernkit.prompt._source_map import SourceMap
    from tavernkit.prompt._source_mapping import Again
    from tavernkit.prompt._source_spans import Place, Span, TextSource, Use

ListDialect: TypeAlias = Literal["openai", "mistral", "ai21", "xai"]
"""Dialects whose payload is a list of messages."""

ObjectDialect: TypeAlias = Literal["anthropic", "google", "cohere", "text"]
"""Dialects whose payload is an object."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Which characters of a rendered prompt came from which block."""

    start: int
    """Offset of the first character."""
    end: int
    """Offset after the last character."""
    block_id: str
    """The block that the characters came from."""


@dataclass(frozen=True, slots=True)
class RenderedText:
    """A prompt as one text, for text-completion models, with the origin of its characters and its stop strings."""

    text: str
    """The whole prompt."""
    spans: Sequence[TextSpan] = ()
    """Which characters came from which block."""
    stop_sequences: Sequence[str] = ()
    """Strings at which the model stops."""


@dataclass(frozen=True)
class Plan:
    """A finished prompt: its pieces, where each came from, and what was left out.

    ``rendered`` is the whole text if the build was for a text model; otherwise dialects use the messages.
    ``counting_note`` says how far token counts may be off if the model's own tokenizer was not available.
    """

    blocks: Sequence[Block] = ()
    """The pieces of the prompt in order. Disabled ones are not sent."""
    outlets: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Texts of lore entries for ``{{outlet::name}}``, by name."""
    lore_result: LoreResult | None = None
    """The result of the lore scan; ``lore_result.rows()`` lists every entry."""
    trim_report: TrimReport | None = None
    """What was left out to fit the token budget, with totals; None if there was no budget."""
    greeting: str | None = None
    """The greeting with its macros expanded; None if the build did not choose one."""
    greeting_index: int | None = None
    """Which greeting it is: 0 is the first message, 1 the first alternate."""
    warnings: Sequence[str] = ()
    """Warnings of the build."""
    degraded: Sequence[str] = ()
    """Why the prompt may be wrong: regexes or scripts that ran out of time on a busy machine."""
    trace: Trace | None = None
    """Timings and numbers of each step, if the build was traced."""
    llm_options: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Options of the request under the platform's own names."""
    omissions: Sequence[Omission] = ()
    """What could have been in the prompt but was left out, with reasons."""
    rendered: RenderedText | None = None
    counting_note: str = ""
    sampling: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Options for any model, in OpenAI's names: temperature, limits, stop strings, tools."""
    variables: VariableChanges = field(default_factory=VariableChanges)
    """Changes of the chat's variables, to be applied when the reply has arrived."""
    moved: Sequence[Moved] = ()
    """What a cache strategy moved away from the platform's own place."""
    metadata_changes: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """What to store in the chat's header when the reply has arrived, so that the next prompt begins like this one."""
    cache_marks: Mapping[str, CacheProfile] = field(default_factory=dict[str, "CacheProfile"], repr=False)
    """The provider whose cache marks a request gets, by its dialect; see ``tavernkit.cache.with_breakpoints()``."""
    count_tokens: Callable[[str], int] | None = field(default=None, repr=False, compare=False)
    """Counts the tokens of a text as the build did."""
    raw_texts: Callable[[], Mapping[tuple[str, str], str]] | None = field(default=None, repr=False, compare=False)
    """Returns the texts of files before macro expansion, by kind and id of their source."""
    again: Again | None = field(default=None, repr=False, compare=False)
    """Builds the plan again with traced texts, for ``source_map()``."""

    def __post_init__(self) -> None:
        own = vars(self)  # written past the frozen class; a call for each field would take longer than the rest
        for name in ("blocks", "warnings", "degraded", "omissions", "moved"):
            own[name] = tuple(own[name])
        for name in ("outlets", "llm_options", "sampling", "metadata_changes"):
            value = own[name]
            if type(value) is not MappingProxyType:  # that of a plan which is changed is frozen
                own[name] = freeze_object(value)

    def __repr__(self) -> str:
        """Return a one-line summary: a prompt is too long to print by accident."""
        report = self.trim_report
        tokens = f", {report.final_tokens} tokens" if report is not None else ""
        blocks = counted(len(self.blocks), "block")
        return f"<{type(self).__name__}: {blocks}{tokens}; print(plan.explain()) shows them>"

    def _repr_html_(self) -> str:
        """Return the explanation as HTML for notebooks."""
        return self.explain().to_html()

    def __getstate__(self) -> dict[str, object]:
        """Functions are not part of a pickle; a loaded plan uses the token counts of its blocks."""
        return {**vars(self), **self._unpickled}

    _unpickled: ClassVar[Mapping[str, object]] = {"count_tokens": None, "raw_texts": None, "again": None}
    """Fields with functions, and their values in a loaded plan."""

    def replace(self, **changes: object) -> Plan:
        """Return a changed copy."""
        return replaced(self, **changes)

    def with_blocks(self, blocks: Iterable[Block]) -> Plan:
        """Return a copy with other blocks."""
        return self.replace(blocks=tuple(blocks))

    def append_block(self, block: Block) -> Plan:
        """Return a copy with a block at the end."""
        return self._insert(len(self.blocks), block)

    def insert_before(self, slot: str, block: Block) -> Plan:
        """Return a copy with a block before the first one of ``slot`` (at the end if there is none).

        Args:
            slot: The slot to look for.
            block: The new block.
        """
        positions = [index for index, each in enumerate(self.blocks) if each.slot == slot]
        return self._insert(positions[0] if positions else len(self.blocks), block)

    def insert_after(self, slot: str, block: Block) -> Plan:
        """Return a copy with a block after the last one of ``slot`` (at the end if there is none).

        Args:
            slot: The slot to look for.
            block: The new block.
        """
        positions = [index for index, each in enumerate(self.blocks) if each.slot == slot]
        return self._insert(positions[-1] + 1 if positions else len(self.blocks), block)

    @property
    def has_greeting(self) -> bool:
        """True if the build chose a greeting."""
        return bool(self.greeting)

    @property
    def enabled_blocks(self) -> tuple[Block, ...]:
        """Blocks that go to the model."""
        return tuple(block for block in self.blocks if block.enabled)

    @property
    def size(self) -> int:
        """How many blocks there are."""
        return len(self.blocks)

    @property
    def enabled_size(self) -> int:
        """How many blocks go to the model."""
        return sum(block.enabled for block in self.blocks)

    @property
    def messages(self) -> list[Message]:
        """The messages before any dialect."""
        return self._prepared(squash=False)

    @overload
    def to_messages(
        self, dialect: ListDialect = "openai", *, squash_system_messages: bool = False, **dialect_options: object
    ) -> list[JsonObject]: ...

    @overload
    def to_messages(
        self, dialect: ObjectDialect, *, squash_system_messages: bool = False, **dialect_options: object
    ) -> JsonObject: ...

    @overload
    def to_messages(
        self, dialect: str, *, squash_system_messages: bool = False, **dialect_options: object
    ) -> object: ...

    def to_messages(
        self, dialect: str = "openai", *, squash_system_messages: bool = False, **dialect_options: object
    ) -> object:
        """Return the provider's payload: for ``openai`` a list of ``{"role", "content"}``, see ``dialects``.

        Args:
            dialect: The provider's protocol; ``text`` for a prompt text.
            squash_system_messages: Join system messages that follow each other (``openai`` only).
            dialect_options: Options of the dialect.
        """
        if dialect == "text" and self.rendered is not None:
            return {"prompt": self.rendered.text, "stop_sequences": list(self.rendered.stop_sequences)}
        from tavernkit.dialects import convert

        if dialect == "openai" and any(block.attachments for block in self.enabled_blocks):
            dialect_options.setdefault("attachments", True)
        squash = squash_system_messages and dialect == "openai"  # other dialects ignore the option
        return convert(self._prepared(squash=squash), dialect, **dialect_options)

    def fingerprint(
        self, dialect: str = "openai", *, squash_system_messages: bool = False, **dialect_options: object
    ) -> str:
        """SHA-256 of what would be sent: equal plans have equal fingerprints, whatever their block ids.

        Args:
            dialect: The provider's protocol.
            squash_system_messages: Join system messages that follow each other.
            dialect_options: Options of the dialect.
        """
        messages = self.to_messages(dialect, squash_system_messages=squash_system_messages, **dialect_options)
        return self.fingerprint_of(messages)

    def fingerprint_of(self, payload: object) -> str:
        """Return the fingerprint of the output of ``to_messages()``."""
        sent = thaw({"messages": payload, "llm_options": self.llm_options})
        text = json.dumps(sent, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def request(
        self,
        dialect: str | None = None,
        *,
        model: str = "",
        options: Mapping[str, object] | None = None,
        reference: bool = False,
        api_key: str | None = None,
        base_url: str = "",
        warn: Warn = log_warning,
    ) -> Request:
        """Return everything that is sent to a model: messages or text, options, stop strings and tools.

        Args:
            dialect: The provider's protocol (``openai``, ``anthropic``, ``google``, ``text``…; by default
                ``openai``); with ``reference``, the other program's name for the provider (by default the preset's).
            model: The model to ask; by default the one that sends the request, or with ``reference`` the preset's.
            options: Options that override the preset's.
            reference: Make exactly the HTTP request of the program that the preset belongs to.
            api_key: The key for a reference request. By default it contains ``<key>``, which the sending model replaces
                with its own; with an empty text, the request is that of a user without a key.
            base_url: The address of a server that the user runs, for a reference request.
            warn: Called with settings that a reference request cannot contain.

        Raises:
            ConfigError: This plan belongs to no other program, or that program does not know the provider.
        """
        from tavernkit.models._request import KEY_MARK, Request

        wire: WireRequest | None = None
        if reference:
            key = KEY_MARK if api_key is None else api_key
            wire = self._reference_request(dialect, model=model, api_key=key, base_url=base_url, warn=warn)
        chosen = _over(self.sampling or _standard(self.llm_options), options or {})
        if self.rendered is not None:
            stop = self.rendered.stop_sequences
            return Request(prompt=self.rendered.text, stop=stop, model=model, options=chosen, dialect="text", wire=wire)
        # A reference request names another program's provider.
        protocol = "openai" if wire is not None or dialect is None else dialect
        sent = self if wire is not None else self.marked_for(protocol)
        messages = sent.messages if wire is not None else sent._messages_for(protocol, model)  # noqa: SLF001  # a plan
        return Request(messages=tuple(messages), model=model, options=chosen, dialect=protocol, wire=wire)

    def marked_for(self, dialect: str) -> Plan:
        """Return the plan with cache marks if its build keeps the cache of a provider that needs them in requests.

        Args:
            dialect: The protocol of the request.
        """
        profile = self.cache_marks.get(dialect)
        if profile is None:
            return self
        from tavernkit.cache._spans import with_breakpoints

        return with_breakpoints(self, profile)

    @property
    def plain_blocks(self) -> Sequence[Block] | None:
        """The blocks, one for each message; None if a message may be made of several."""
        return None

    def _messages_for(self, dialect: str, model: str) -> list[Message]:
        """Return the messages that a model gets."""
        del dialect, model
        return self.messages

    def _reference_request(
        self, provider: str | None, *, model: str, api_key: str, base_url: str, warn: Warn
    ) -> WireRequest:
        raise ConfigError("reference requests are those of SillyTavern and RisuAI: this plan belongs to neither")

    def explain(self) -> Explanation:
        """Explain what is in the prompt, where it came from, what it costs, and what was left out. Print the result."""
        from tavernkit.prompt._explain import explain_plan

        return explain_plan(self)

    def source_map(self, dialect: str | None = None, *, reference: bool = False) -> SourceMap:
        """Map every character of the prompt to its source. Built on first use, by building the prompt again.

        Args:
            dialect: Map the texts of this provider's payload instead of the messages; their ids are JSON pointers.
            reference: Map the body of the request that the preset's own program would send, see ``request()``;
                ``dialect`` is then that program's name for the provider.

        Raises:
            ConfigError: The plan was loaded from a pickle without a map, or was not made by a build.
        """
        from tavernkit.prompt._source_mapping import map_plan

        made: dict[tuple[str | None, bool], SourceMap] = vars(self).setdefault("_source_maps", {})
        if (dialect, reference) not in made:
            payload = partial(_payload, dialect=dialect, reference=reference) if dialect or reference else None
            made[dialect, reference] = map_plan(self, self.again, payload)
        return made[dialect, reference]

    def where(self, words: str) -> list[Place]:
        """Find words in the prompt and where they came from; see ``source_map()``."""
        return self.source_map().where(words)

    def at(self, message: int, offset: int) -> Span:
        """Return the span of one character of a message (0 for a text prompt): see ``source_map()``.

        Args:
            message: The number of the message, from 0.
            offset: The character in it, from 0.
        """
        return self.source_map().at(message, offset)

    def uses(self, source: TextSource | str) -> list[Use]:
        """Return where a field or lore entry went, how many tokens it has there, and which parts are missing."""
        return self.source_map().uses(source)

    def to_dict(self) -> JsonObject:
        """Blocks, messages and everything that was left out, ready for ``json``; ``from_dict()`` reads it back."""
        from tavernkit.prompt._saved_plan import plan_dict

        return plan_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Plan:
        """Read the output of ``to_dict()``, from this schema version or an older one.

        The plan has the same blocks, messages, request and omissions. It is a plain ``Plan``, whatever platform
        made it: lore results, trim reports and reference requests are not saved.

        Raises:
            ConfigError: It is not a saved plan, or one of a newer schema.
        """
        from tavernkit.prompt._saved_plan import read_plan

        return read_plan(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``to_dict()`` to a file; ``load()`` reads it."""
        from tavernkit.cards._json_text import dump_json

        write_atomically(Path(path), f"{dump_json(self.to_dict(), indent=2)}\n".encode())

    @classmethod
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> Plan:
        """Read a plan that was saved with ``save()`` or ``tavernkit build --save``; see ``from_dict()``.

        Args:
            source: The path of the file, or its bytes.
            warn: Called with problems in the file.
            strict: Raise instead.

        Raises:
            FileFormatError: It is not a saved plan, or one of a newer schema.
        """
        from tavernkit.prompt._saved_plan import load_plan

        return load_plan(source, refuse_warning if strict else warn)

    def debug_dump(self) -> str:
        """Return every block with its non-default fields and its content."""
        return "\n\n".join(dump_block(block) for block in self.blocks)

    def _insert(self, position: int, block: Block) -> Plan:
        return self.with_blocks((*self.blocks[:position], block, *self.blocks[position:]))

    def _prepared(self, *, squash: bool) -> list[Message]:
        blocks = merge_in_chat(self.enabled_blocks)
        if squash:
            blocks = squash_system(blocks)
        return [block.to_message() for block in blocks]


def _payload(plan: Plan, *, dialect: str | None, reference: bool) -> object:
    if not reference:
        return plan.to_messages(dialect or "openai")
    wire = plan.request(dialect, reference=True, warn=lambda _: None).wire
    return wire.body if wire is not None else None


def _over(own: FrozenObject, asked: Mapping[str, object]) -> FrozenObject:
    """Merge the caller's options over the preset's; a token limit replaces the preset's under any of its names."""
    from tavernkit.models._parameters import LENGTHS

    limited = any(asked.get(name) is not None for name in LENGTHS)
    kept = {name: value for name, value in own.items() if not (limited and name in LENGTHS)}
    return freeze_object({**kept, **asked})


def _standard(options: FrozenObject) -> FrozenObject:
    """Pick the options that models accept from those of a platform's own request."""
    from tavernkit.models._parameters import STANDARD_OPTIONS

    return {
        name: options[name] for name in (*STANDARD_OPTIONS, "tools", "tool_choice") if options.get(name) is not None
    }
