"""How a source map is made: the prompt is built again with traced texts, and their pieces become spans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from operator import is_, itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import (
    Origin,
    Piece,
    follows,
    pieces_of,
    plain,
    trace,
    tracing,
    unknown_parts,
)
from tavernkit._text.traced_changes import align
from tavernkit._values import is_mapping, is_sequence
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Block, with_field
from tavernkit.prompt._known_texts import Blocks, KnownText, all_texts
from tavernkit.prompt._line_forms import KnownLine, SourcesOf, no_sources
from tavernkit.prompt._source_map import SourceMap
from tavernkit.prompt._source_spans import MappedText, Span, TextSource
from tavernkit.prompt._steady_texts import SHORT_TEXT
from tavernkit.prompt._traced_spans import OpenSpan, finished_spans, moved_spans, source_of, spans_of

if TYPE_CHECKING:
    from tavernkit.prompt._plan import Plan

PlacedText: TypeAlias = tuple[object, str]
"""A text of a build with traced texts, after its place: a line of the whole chat, or a slot."""

Payload: TypeAlias = Callable[["Plan"], object]
"""Returns the JSON sent to a provider."""


@dataclass(frozen=True, slots=True)
class TracedBuild:
    """The traced texts of a plan.

    ``plan`` was built again with traced texts; with ``contents``, it may be the plan itself.
    """

    plan: Plan
    text_of: Callable[[Block], str] | None = None
    """Returns the traced text of a block, if some texts were left untraced because they are a whole input."""
    lines: Mapping[int, KnownLine] = field(default_factory=dict[int, KnownLine])
    """Lines of the chat whose spans are known without their traced texts, by the ids of their blocks."""
    sources_of: SourcesOf = no_sources
    """Returns the sources of such lines."""
    unused: Callable[[], Iterable[tuple[str, str]]] = tuple
    """Traced input texts that the build did not use, each with the reason."""
    contents: Sequence[str] | None = None
    """The texts of all blocks of the first build, traced if possible; None if the text of a block may differ."""


Again: TypeAlias = Callable[["Plan"], TracedBuild]
"""Builds a plan again with traced texts."""


def map_plan(plan: Plan, again: Again | None, payload: Payload | None = None) -> SourceMap:
    """Build a prompt again with traced texts, and make its map from them.

    Args:
        plan: The plan.
        again: Builds it again.
        payload: Map the texts of this instead of the messages; their ids are JSON pointers.
    """
    if again is None:
        raise ConfigError(
            "this plan does not know what it was built from: it was put together by hand or comes from a file or a "
            "pickle (make the source map before pickling a plan)",
            code="NO_SOURCE_MAP",
        )
    with tracing() as given:
        return SourceMap(TracedTexts(plan, again(plan), given, payload))


class _Text(NamedTuple):
    """A traced text. ``same`` is True if it was rebuilt exactly; ``block`` is set for the text of a block."""

    traced: str
    same: bool
    block: Block | None
    role: str
    id: str
    tokens: int = 0


def with_traced_texts(
    plan: Plan, traced: Iterable[PlacedText], blocks: Blocks, known: Mapping[int, KnownText]
) -> Sequence[str] | None:
    """Return the texts of a plan's blocks, traced in a build of part of its prompt; None if some are missing.

    Args:
        plan: The plan.
        traced: The texts of that build.
        blocks: The blocks of the plan whose texts are wanted.
        known: Texts that are known already, by the ids of their blocks.
    """
    found: dict[tuple[object, str], list[str]] = {}
    for place, text in traced:
        found.setdefault((place, plain(text)), []).append(text)
    texts: list[str] = []
    used: dict[tuple[object, str], str] = {}
    for _, block, place in blocks:
        before = known.get(id(block))
        if before is not None:
            texts.append(before.text)
            continue
        key = place, block.content
        if not found.get(key):
            return None
        used[key] = found[key].pop(0)
        texts.append(used[key])
    # If the same words occur there more often, they cannot be told apart, unless they come from the same source.
    if any(pieces_of(left) != pieces_of(text) for key, text in used.items() for left in found[key]):
        return None
    return all_texts(plan, blocks, texts)


def has_words_of(texts: Iterable[str], lines: Callable[[], Sequence[str]]) -> bool:
    """Return True if parts of texts that come from nowhere may be words of a chat that was not traced.

    Args:
        texts: The texts.
        lines: Returns what the lines of the chat say.
    """
    unknown = [part for text in texts for part in unknown_parts(text, SHORT_TEXT)]
    said = lines() if unknown else ()
    return any(True for part in unknown for line in said if part in line or (line in part and len(line) > SHORT_TEXT))


class TracedTexts:
    """The traced texts of a plan; spans are made on demand."""

    def __init__(self, plan: Plan, build: TracedBuild, given: Sequence[Origin], payload: Payload | None) -> None:
        self.count: Callable[[str], int] = plan.count_tokens if plan.count_tokens is not None else len
        self._plan = plan
        self._build = build
        self._given = given
        self._payload = payload

    @property
    def exact(self) -> bool:
        """True if the prompt was rebuilt exactly."""
        return self._build.contents is not None or all(text.same for text in self.messages)

    @cached_property
    def words(self) -> Sequence[str]:
        """The texts of all messages that are sent, or the text prompt."""
        if self._parts is not None:
            return [self._plan.rendered.text if self._plan.rendered is not None else ""]
        if self._plain_blocks is not None:
            return [block.content for block, _ in self._plain_blocks]
        if self._build.contents is not None:
            return [text for _, _, text in self._sent[1]]
        return [text.traced for text in self.messages]

    @cached_property
    def _parts(self) -> Sequence[str | KnownLine] | None:
        """The traced texts and lines of a text prompt; None if it contains others."""
        contents, rendered, text_of = self._build.contents, self._plan.rendered, self._build.text_of
        if contents is None or rendered is None or text_of is None or self._payload is not None:
            return None
        lines = self._build.lines
        sent = [(block, text) for block, text in zip(self._plan.blocks, contents, strict=True) if block.enabled]
        if "".join([block.content for block, _ in sent]) != rendered.text:
            return None
        return [lines.get(id(block)) or text_of(block) if type(text) is str else text for block, text in sent]

    @cached_property
    def _plain_blocks(self) -> Sequence[tuple[Block, str]] | None:
        """The blocks, one for each message, with their texts; None if a message may be made of several."""
        contents, blocks = self._build.contents, self._plan.plain_blocks
        if contents is None or blocks is None or self._build.text_of is None or self._payload is not None:
            return None
        found = [each for each in zip(self._plan.blocks, contents, strict=True) if each[0].enabled]
        return found if len(found) == len(blocks) and all(map(is_, blocks, map(itemgetter(0), found))) else None

    @cached_property
    def _traced(self) -> Plan:
        """The plan with traced texts."""
        plan, contents = self._build.plan, self._build.contents
        if contents is None:
            return plan
        with tracing():
            return plan.with_blocks(map(_with_text, self._plan.blocks, contents))

    @cached_property
    def messages(self) -> list[_Text]:
        """Every message of a prompt that may have been built differently, or the text prompt, without its spans."""
        traced, known, whole = self._sent
        texts = [text for _, _, text in known]
        blocks = {id(text): block for text, block in zip(texts, whole, strict=True) if block is not None}
        own = self._own(traced)
        with tracing():
            return [
                _Text(*_twin(text, texts, index, blocks, own), role, place)
                for index, (place, role, text) in enumerate(_sent(self._plan, self._payload))
            ]

    @cached_property
    def blocks(self) -> list[_Text]:
        """Every block that is sent, without its spans."""
        plan = self._plan
        if self._build.contents is not None:
            return [
                _Text(each.content, True, each, each.role, each.id, _tokens(plan, each))
                for each in self._traced.blocks
                if each.enabled
            ]
        traced = self._sent[0]
        contents = [block.content for block in traced.blocks]
        whole = {id(block.content): block for block in traced.blocks}
        own = self._own(traced)
        with tracing():
            return [
                _Text(*_twin(block.content, contents, index, whole, own), block.role, block.id, _tokens(plan, block))
                for index, block in enumerate(plan.blocks)
                if block.enabled
            ]

    def _own(self, traced: Plan) -> dict[str, Block]:
        """Return text that the application added after the build: it is in no file, so its block is the source."""
        built = {block.id for block in traced.blocks}
        return {block.content: block for block in self._plan.blocks if block.id not in built}

    @cached_property
    def _sent(self) -> tuple[Plan, list[tuple[str, str, str]], Sequence[Block | None]]:
        """The plan with traced texts, the texts that are sent, and the block of each text that is a whole block."""
        traced, text_of = self._traced, self._build.text_of
        blocks = traced.plain_blocks if self._payload is None and text_of is not None else None
        if blocks is not None:
            return traced, [(str(index), block.role, block.content) for index, block in enumerate(blocks)], blocks
        with tracing():
            known = _sent(traced, self._payload)
            if text_of is not None:
                whole = _whole_blocks(traced, known)
                if whole is not None:
                    return traced, known, whole
                # Blocks were joined or changed on their way into messages: their texts must be traced before that.
                texts = [text_of(each) if type(each.content) is str else each.content for each in traced.blocks]
                if any(text is not block.content for text, block in zip(texts, traced.blocks, strict=True)):
                    traced = traced.with_blocks(map(_with_text, traced.blocks, texts))
                    known = _sent(traced, self._payload)
        return traced, known, [None] * len(known)

    def message(self, index: int) -> MappedText:
        """Return a message with its spans."""
        if self._plain_blocks is not None:
            block, text = self._plain_blocks[index]
            return self._message(str(index), block.role, text, block)
        if self._build.contents is None:
            return self._mapped(self.messages[index])
        spans = _joined_spans(self._parts, self._build.sources_of) if self._parts is not None else None
        if spans is not None:
            return MappedText(self.words[index], spans, "", "0")
        _, sent, whole = self._sent
        return self._message(*sent[index], whole[index])

    def _message(self, place: str, role: str, text: str, block: Block | None) -> MappedText:
        if block is not None and type(text) is str:
            line, text_of = self._build.lines.get(id(block)), self._build.text_of
            if line is not None:
                return line.message(place, role, self._build.sources_of)
            text = text_of(block) if text_of is not None else text
        return MappedText(plain(text), spans_of(text), role, place)

    def block(self, index: int) -> MappedText:
        """Return a block with its spans."""
        return self._mapped(self.blocks[index])

    def given(self) -> Iterator[TextSource]:
        """Return the inputs of the build; a source may occur twice."""
        return map(source_of, self._given)

    def unused(self) -> dict[TextSource, str]:
        """Return what the build did not use, with the reason."""
        return {
            source_of(origin): plain(reason)
            for text, reason in self._build.unused()
            for _, _, origin, _, _ in pieces_of(text)
            if origin is not None
        }

    def _mapped(self, text: _Text) -> MappedText:
        traced, _, block, role, place, tokens = text
        text_of = self._build.text_of
        if block is not None and text_of is not None:
            traced = text_of(block)
        return MappedText(plain(traced), spans_of(traced), role, place, tokens)


def _whole_blocks(traced: Plan, sent: Sequence[tuple[str, str, str]]) -> Sequence[Block] | None:
    """Return the blocks that texts are; None if some are not whole blocks, or could be one of several."""
    enabled = [block for block in traced.blocks if block.enabled]
    if [id(text) for _, _, text in sent] == [id(block.content) for block in enabled]:
        return enabled
    known = {id(block.content): block for block in traced.blocks}
    found = [block for _, _, text in sent if (block := known.get(id(text))) is not None]
    return found if len(found) == len(sent) and len(known) == len(traced.blocks) else None


def _with_text(block: Block, text: str) -> Block:
    return block if text is block.content else with_field(block, "content", text)


def _sent(plan: Plan, payload: Payload | None) -> list[tuple[str, str, str]]:
    """Place, role and text of every message, or of the texts of a provider's payload; a text prompt is one text."""
    if payload is not None:
        return [(place, "", text) for place, text in _texts_in(payload(plan), "", worded=True)]
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


def _twin(
    text: str, known: Sequence[str], index: int, whole: Mapping[int, Block], own: Mapping[str, Block]
) -> tuple[str, bool, Block | None]:
    """Return the traced version of a text; if there is none, compare it with the text at the same place."""
    near = known[index] if index < len(known) else ""
    if near != text:
        same = next((each for each in known if each == text), None)
        if same is None and text in own:
            return trace(text, Origin("block", own[text].id, "", text)), True, None
        if same is None:
            return align(text, near), False, None
        near = same
    return near, True, whole.get(id(near))


def _tokens(plan: Plan, block: Block) -> int:
    tokens = block.metadata.get("tokens")
    if isinstance(tokens, int):
        return tokens
    return plan.count_tokens(block.content) if plan.count_tokens is not None else len(block.content)


def _joined_spans(parts: Iterable[str | KnownLine], sources_of: SourcesOf) -> tuple[Span, ...] | None:
    """Return the spans of joined texts; None if a change spans two of them."""
    found: list[OpenSpan] = []
    at = 0
    last: Piece | None = None
    for part in parts:
        start = at
        if isinstance(part, KnownLine):
            part.add_spans(found, at, sources_of)
            form = part.form
            first, end = (form.first, form.last) if form is not None else (None, None)
        else:
            moved_spans(spans_of(part), at, found)
            pieces = pieces_of(part)
            first, end = (pieces[0], pieces[-1]) if pieces else (None, None)
        at = found[-1].end if found else 0
        if at == start:
            continue
        if last is not None and first is not None:
            before, after = last[4], first[4]
            if before is not None and after is not None and before.change is after.change:
                return None
            if last[2] is first[2] and follows(last, first):
                place = len(found) - 1
                while found[place].start > start:
                    place -= 1
                (joined,) = moved_spans(found[place - 1 : place], 0)
                joined.end = found[place].end
                found[place - 1 : place + 1] = [joined]
        last = end
    return finished_spans(found)
