"""Where every character of a prompt came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from tavernkit.arguments import require
from tavernkit.errors import ConfigError
from tavernkit.text.traced import Change, Origin, Piece, align, pieces_of, plain, tracing
from tavernkit.values import Json, JsonObject, is_mapping, is_sequence

if TYPE_CHECKING:
    from tavernkit.prompt.block import Block
    from tavernkit.prompt.plan import Plan

SpanKind: TypeAlias = Literal["verbatim", "expanded", "replaced", "added", "aligned"]
"""What a span of a prompt is: see :class:`Span`."""

KINDS: Sequence[SpanKind] = ("verbatim", "expanded", "replaced", "aligned", "added")


@dataclass(frozen=True, slots=True)
class TextSource:
    """A text of a file or another input: ``kind`` says of what, ``name`` of which one, ``pointer`` where in it.

    ``text`` is the whole text as it stands there; ``pointer`` is a JSON pointer (empty for an input that is a text).
    """

    kind: str
    name: str
    pointer: str
    text: str = field(repr=False, compare=False)
    title: str = field(default="", compare=False)

    @property
    def id(self) -> str:
        """One word for it: ``card:Alice/data/description``."""
        return f"{self.kind}:{self.name}{self.pointer}"

    @property
    def label(self) -> str:
        """The words for people: what it is, its title or name, and where it stands."""
        return " ".join(part for part in (self.kind, self.title or self.name, self.pointer) if part)

    def to_dict(self) -> JsonObject:
        """All fields, ready for :mod:`json`."""
        return {
            "kind": self.kind,
            "name": self.name,
            "pointer": self.pointer,
            "title": self.title,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start`` to ``end`` of a text, and where they came from.

    - ``verbatim``: they stand in ``source`` at ``offset``.
    - ``expanded``: the macro ``name`` gave them; ``written`` has the spans of the macro itself, ``inner`` those of what
      it gave (``{{description}}`` goes on to the card).
    - ``replaced``: the script ``name`` wrote them; ``written`` has the spans of what they replaced, ``inner`` those of
      what it kept.
    - ``added``: the builder's own; ``name`` is the setting that asks for it, if one does.
    - ``aligned``: found by comparing a text with what it was made of; ``inner`` says where they seem to stand.

    Offsets of ``inner`` are those of the same text; offsets of ``written`` are those of the text that was written.
    """

    start: int
    end: int
    kind: SpanKind
    source: TextSource | None = None
    offset: int = 0
    name: str = ""
    inner: tuple[Span, ...] = ()
    written: tuple[Span, ...] = ()

    def __len__(self) -> int:
        return self.end - self.start

    def leaves(self) -> Iterator[Span]:
        """The innermost spans: of what a macro gave, those that go on to its sources."""
        if not self.inner:
            yield self
        for span in self.inner:
            yield from span.leaves()

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """Every source that characters of this span stand in; for what a macro made, where the macro stands."""
        found: dict[TextSource, None] = {}
        for leaf in self.leaves():
            if leaf.source is not None:
                found[leaf.source] = None
            else:
                found.update(dict.fromkeys(source for span in leaf.written for source in span.sources))
        return tuple(found)

    def to_dict(self) -> JsonObject:
        """Everything that is set, ready for :mod:`json`; the source by its id."""
        plain_form: JsonObject = {"start": self.start, "end": self.end, "kind": self.kind}
        if self.source is not None:
            plain_form |= {"source": self.source.id, "offset": self.offset}
        if self.name:
            plain_form["name"] = self.name
        for key, spans in (("inner", self.inner), ("written", self.written)):
            if spans:
                plain_form[key] = [span.to_dict() for span in spans]
        return plain_form


@dataclass(frozen=True, slots=True)
class MappedText:
    """A text of a prompt with its spans, which cover it without gap or overlap."""

    text: str
    spans: tuple[Span, ...]
    role: str = ""
    id: str = ""
    tokens: int = 0

    def to_dict(self) -> JsonObject:
        """All fields, ready for :mod:`json`."""
        return {
            "id": self.id,
            "role": self.role,
            "text": self.text,
            "tokens": self.tokens,
            "spans": [span.to_dict() for span in self.spans],
        }


@dataclass(frozen=True, slots=True)
class Place:
    """Words in a prompt: the message (0 for a text prompt), the offsets in it, and the spans they belong to."""

    message: int
    start: int
    end: int
    text: str
    spans: tuple[Span, ...]

    def to_dict(self) -> JsonObject:
        """All fields, ready for :mod:`json`."""
        return {
            "message": self.message,
            "start": self.start,
            "end": self.end,
            "text": self.text,
            "spans": [span.to_dict() for span in self.spans],
        }


@dataclass(frozen=True, slots=True)
class Use:
    """What became of one source: where its characters went, at what cost, and which ones are not in the prompt."""

    source: TextSource
    places: tuple[Place, ...]
    tokens: int
    missing: tuple[tuple[int, int], ...]
    """Start and end of the parts of the source's text that did not arrive as they are."""

    def to_dict(self) -> JsonObject:
        """All fields, ready for :mod:`json`."""
        return {
            "source": self.source.to_dict(),
            "tokens": self.tokens,
            "places": [place.to_dict() for place in self.places],
            "missing": [[start, end] for start, end in self.missing],
        }


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens that a source, or the builder itself (no source), has in one block."""

    block: str
    source: TextSource | None
    tokens: int

    def to_dict(self) -> JsonObject:
        """All fields, ready for :mod:`json`."""
        return {"block": self.block, "source": None if self.source is None else self.source.id, "tokens": self.tokens}


class SourceMap:
    """The spans of every message, or of the text prompt, and of every block.

    ``messages`` is what is sent, ``blocks`` what it was put together from, ``costs`` the tokens of each source in each
    block. ``exact`` is False if the prompt could not be built again as it was (its variables or random numbers have
    gone on): spans of what differs are ``aligned``.
    """

    def __init__(
        self,
        plan: Plan,
        messages: Sequence[_TracedText],
        blocks: Sequence[_TracedText],
        given: Sequence[Origin],
        *,
        exact: bool,
    ) -> None:
        self.exact = exact
        self._given = given
        self._traced = messages, blocks
        self._count = plan.count_tokens if plan.count_tokens is not None else len
        self._sources = _Sources()

    def __getstate__(self) -> dict[str, object]:
        """A pickle has the finished spans."""
        return {
            "exact": self.exact,
            "messages": self.messages,
            "blocks": self.blocks,
            "costs": self.costs,
            "given": self.given,
        }

    @cached_property
    def messages(self) -> tuple[MappedText, ...]:
        """Every message that is sent, or the text prompt, with its spans."""
        return tuple(self._mapped(text) for text in self._traced[0])

    @cached_property
    def blocks(self) -> tuple[MappedText, ...]:
        """Every block that is sent, with its spans and tokens."""
        return tuple(self._mapped(text) for text in self._traced[1])

    @cached_property
    def costs(self) -> tuple[Cost, ...]:
        """The tokens of each source in each block; what they have in a block adds up to its tokens."""
        return tuple(cost for block in self.blocks for cost in _costs(block, self._count))

    @cached_property
    def given(self) -> tuple[TextSource, ...]:
        """Every text that the build was given and that could have got into the prompt, activated lore included."""
        return tuple(dict.fromkeys(self._sources.source(origin) for origin in self._given))

    def _mapped(self, text: _TracedText) -> MappedText:
        return MappedText(plain(text.text), self._sources.spans(text.text), text.role, text.id, text.tokens)

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """Every source that is in the prompt, in the order of its first use."""
        found: dict[TextSource, None] = {}
        for text in self.messages:
            for span in text.spans:
                found.update(dict.fromkeys(span.sources))
        return tuple(found)

    def where(self, words: str) -> list[Place]:
        """Find words in the prompt, and say where they came from."""
        require("words", words, str)
        found: list[Place] = []
        for index, text in enumerate(self.messages):
            at = text.text.find(words) if words else -1
            while at >= 0:
                found.append(_place(index, text, at, at + len(words)))
                at = text.text.find(words, at + len(words))
        return found

    def at(self, message: int, offset: int) -> Span:
        """Return the span of one character.

        Args:
            message: The index of the message, 0 for a text prompt.
            offset: The character's place in its text.
        """
        text = self.messages[message]
        found = next((span for span in text.spans if span.start <= offset < span.end), None)
        if found is None:
            raise IndexError(f"message {message} has {len(text.text)} characters, none at {offset}")
        return found

    def uses(self, source: TextSource | str) -> list[Use]:
        """Say what became of a source; a text names all whose id or title has it (``lore:Eldoria``, ``description``).

        All that the build was given is known, in the prompt or not, but for lore that no key called up; why something
        was left out is in ``plan.omissions``.
        """
        require("source", source, TextSource | str)
        wanted = (
            [source]
            if isinstance(source, TextSource)
            else [each for each in self.given if source in each.id or source == each.title]
        )
        return [self._use(each) for each in wanted]

    def tokens_by_source(self) -> dict[TextSource, int]:
        """Tokens of every source over all blocks, the most expensive first."""
        counts: dict[TextSource, int] = {}
        for cost in self.costs:
            if cost.source is not None:
                counts[cost.source] = counts.get(cost.source, 0) + cost.tokens
        return dict(sorted(counts.items(), key=lambda each: -each[1]))

    def shares(self) -> dict[str, int]:
        """Count the characters of all messages by the kind of their span."""
        counts: dict[str, int] = dict.fromkeys(KINDS, 0)
        for text in self.messages:
            for span in text.spans:
                counts[span.kind] += len(span)
        return counts

    def to_dict(self) -> JsonObject:
        """The whole map, ready for :mod:`json`: sources once, spans with their ids."""
        named: dict[str, Json] = {}
        for source in self.sources:
            named[source.id] = source.to_dict()
        for cost in self.costs:
            if cost.source is not None:
                named.setdefault(cost.source.id, cost.source.to_dict())
        return {
            "exact": self.exact,
            "sources": named,
            "messages": [text.to_dict() for text in self.messages],
            "costs": [cost.to_dict() for cost in self.costs],
        }

    def _use(self, source: TextSource) -> Use:
        places: list[Place] = []
        arrived: list[tuple[int, int]] = []
        for index, text in enumerate(self.messages):
            for span in text.spans:
                for leaf in span.leaves():
                    if leaf.source == source:
                        places.append(_place(index, text, leaf.start, leaf.end))
                        arrived.append((leaf.offset, leaf.offset + len(leaf)))
        tokens = sum(cost.tokens for cost in self.costs if cost.source == source)
        return Use(source, tuple(places), tokens, tuple(_gaps(arrived, len(source.text))))


@dataclass(frozen=True, slots=True)
class _TracedText:
    text: str
    role: str
    id: str
    tokens: int


def map_plan(plan: Plan, again: Callable[[Plan], Plan] | None, dialect: str | None = None) -> SourceMap:
    """Build the prompt again with traced texts, which its map is read off."""
    if again is None:
        raise ConfigError(
            "this plan does not know what it was built from: it was put together by hand, is part of a send with "
            "long-term memory, or comes from a pickle (make the source map before pickling a plan)",
            code="NO_SOURCE_MAP",
        )
    with tracing() as given:
        traced = again(plan)
        sent, known = _sent(plan, dialect), [text for _, _, text in _sent(traced, dialect)]
        found = [_same(text, known, index) for index, (_, _, text) in enumerate(sent)]
        contents = [block.content for block in traced.blocks]
        blocks = [
            _TracedText(_same(block.content, contents, index)[0], block.role, block.id, _tokens(plan, block))
            for index, block in enumerate(plan.blocks)
            if block.enabled
        ]
    messages = [_TracedText(text, role, place, 0) for (place, role, _), (text, _) in zip(sent, found, strict=True)]
    return SourceMap(plan, messages, blocks, given, exact=all(same for _, same in found))


def _sent(plan: Plan, dialect: str | None) -> list[tuple[str, str, str]]:
    """Place, role and text of every message, or of the texts of a provider's payload; a text prompt is one text."""
    if dialect is not None:
        return [(place, "", text) for place, text in _texts_in(plan.to_messages(dialect), "", worded=True)]
    if plan.rendered is not None:
        return [("0", "", plan.rendered.text)]
    return [(str(index), message.role, message.content) for index, message in enumerate(plan.messages)]


_WORDED = frozenset({"content", "text", "system", "prompt", "message", "preamble"})
"""Keys of payloads whose texts are words for the model."""


def _texts_in(value: object, pointer: str, *, worded: bool) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if worded:
            yield pointer, value
    elif is_mapping(value):
        for key, item in value.items():
            yield from _texts_in(item, f"{pointer}/{key}", worded=key in _WORDED)
    elif is_sequence(value):
        for index, item in enumerate(value):
            yield from _texts_in(item, f"{pointer}/{index}", worded=worded)


def _same(text: str, known: Sequence[str], index: int) -> tuple[str, bool]:
    """The traced twin of a text; one that is not there is compared with what stands in its place."""
    near = known[index] if index < len(known) else ""
    if near == text:
        return near, True
    same = next((each for each in known if each == text), None)
    return (align(text, near), False) if same is None else (same, True)


def _tokens(plan: Plan, block: Block) -> int:
    tokens = block.metadata.get("tokens")
    if isinstance(tokens, int):
        return tokens
    return plan.count_tokens(block.content) if plan.count_tokens is not None else len(block.content)


class _Sources:
    """Turns pieces into spans, with one source for all pieces of an origin."""

    def __init__(self) -> None:
        self._made: dict[int, TextSource] = {}
        self._known: dict[int, tuple[str, tuple[Span, ...]]] = {}

    def spans(self, text: str) -> tuple[Span, ...]:
        """The spans of a text, made once: most messages are blocks, and a macro is written once for all it gave."""
        known = self._known.get(id(text))
        if known is None:
            known = self._known[id(text)] = text, tuple(self._spans(pieces_of(text)))
        return known[1]

    def _spans(self, pieces: Iterable[Piece]) -> Iterator[Span]:
        for key, group in groupby(pieces, key=_outermost):
            if key is None:
                yield from map(self._leaf, group)
                continue
            inside = list(group)
            change, start, end = key, inside[0][0], inside[-1][1]
            inner = tuple(
                self._spans(
                    (first, last, origin, offset, via.before if via is not None else None)
                    for first, last, origin, offset, via in inside
                )
            )
            if all(span.kind == "added" and not span.name for span in inner):
                inner = ()
            yield Span(start, end, change.kind, name=plain(change.name), inner=inner, written=self.spans(change.text))

    def _leaf(self, piece: Piece) -> Span:
        start, end, origin, offset, _ = piece
        if origin is None:
            return Span(start, end, "added")
        if origin.kind == "added":
            return Span(start, end, "added", name=origin.name)
        return Span(start, end, "verbatim", self.source(origin), offset)

    def source(self, origin: Origin) -> TextSource:
        """The source of an origin."""
        made = self._made.get(id(origin))
        if made is None:
            made = TextSource(origin.kind, plain(origin.name), origin.pointer, plain(origin.text), plain(origin.title))
            self._made[id(origin)] = made
        return made


def _outermost(piece: Piece) -> Change | None:
    via = piece[4]
    return None if via is None else via.change


def _place(index: int, text: MappedText, start: int, end: int) -> Place:
    spans = tuple(span for span in text.spans if span.start < end and span.end > start)
    return Place(index, start, end, text.text[start:end], spans)


def _gaps(arrived: list[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    at = 0
    for start, end in sorted(arrived):
        if start > at:
            yield at, start
        at = max(at, end)
    if at < length:
        yield at, length


def _costs(block: MappedText, count: Callable[[str], int]) -> Iterator[Cost]:
    """Share a block's tokens among its sources by what their texts would cost alone; the sum is the block's."""
    texts: dict[TextSource | None, list[str]] = {}
    for span in block.spans:
        for leaf in span.leaves():
            source = leaf.source or next(iter(leaf.sources), None) or next(iter(span.sources), None)
            texts.setdefault(source, []).append(block.text[leaf.start : leaf.end])
    if len(texts) < 2:
        yield Cost(block.id, next(iter(texts), None), block.tokens)
        return
    weights = [max(count("".join(parts)), 0) for parts in texts.values()]
    for source, tokens in zip(texts, shared(block.tokens, weights), strict=True):
        yield Cost(block.id, source, tokens)


def shared(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a number in proportion to weights, into whole numbers whose sum it is."""
    whole = sum(weights)
    if not whole:
        return [total if index == 0 else 0 for index in range(len(weights))]
    shares = [total * weight // whole for weight in weights]
    rests = sorted(range(len(weights)), key=lambda index: (-(total * weights[index] % whole), index))
    for index in rests[: total - sum(shares)]:
        shares[index] += 1
    return shares
