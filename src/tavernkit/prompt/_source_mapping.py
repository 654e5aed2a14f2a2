"""How a source map is made: the prompt is built again with traced texts, and their pieces become spans."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import Change, Origin, Piece, align, pieces_of, plain, trace, tracing
from tavernkit._values import is_mapping, is_sequence
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Block, with_field
from tavernkit.prompt._source_map import SourceMap
from tavernkit.prompt._source_spans import MappedText, Span, TextSource

if TYPE_CHECKING:
    from tavernkit.prompt._plan import Plan

Place: TypeAlias = Callable[[Block], object]
"""Returns the place of a block, comparable between two builds."""

Payload: TypeAlias = Callable[["Plan"], object]
"""Returns the JSON sent to a provider."""


@dataclass(frozen=True, slots=True)
class TracedBuild:
    """A plan that was built again with traced texts."""

    plan: Plan
    text_of: Callable[[Block], str] | None = None
    """Returns the traced text of a block, if some texts were left untraced because they are a whole input."""
    unused: Callable[[], Iterable[tuple[str, str]]] = tuple
    """Traced input texts that the build did not use, each with the reason."""
    exact: bool = False
    """True if its blocks are known to match those of the first build one to one."""


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
    plan: Plan, traced: Plan, place: Place, traced_place: Place, whole: Container[int]
) -> Plan | None:
    """Return a plan with traced texts from a build of part of its chat; None if some are missing.

    Args:
        plan: The plan.
        traced: A build of part of the chat, with traced texts.
        place: Returns the place of a block of the plan: its own (a line of the chat), or a shared one.
        traced_place: The same for blocks of the other one.
        whole: Ids of blocks whose texts are not needed.
    """
    known: dict[tuple[object, str], list[str]] = {}
    for block in traced.blocks:
        known.setdefault((traced_place(block), plain(block.content)), []).append(block.content)
    blocks: list[Block] = []
    used: set[tuple[object, str]] = set()
    for block in plan.blocks:
        if id(block) in whole or not block.enabled:
            blocks.append(block)
            continue
        key = place(block), block.content
        found = known.get(key)
        if not found:
            return None
        used.add(key)
        blocks.append(_with_text(block, found.pop(0)))
    if any(known[key] for key in used):  # the same text occurs there more than once: they cannot be told apart
        return None
    return traced.with_blocks(blocks)


class TracedTexts:
    """The traced texts of a plan; spans are made on demand."""

    def __init__(self, plan: Plan, build: TracedBuild, given: Sequence[Origin], payload: Payload | None) -> None:
        self.count: Callable[[str], int] = plan.count_tokens if plan.count_tokens is not None else len
        self._spans = _SpanMaker()
        self._plan = plan
        self._build = build
        self._given = given
        self._payload = payload

    @property
    def exact(self) -> bool:
        """True if the prompt was rebuilt exactly."""
        return self._build.exact or all(text.same for text in self.messages)

    @property
    def messages(self) -> list[_Text]:
        """Every message that is sent, or the text prompt, without its spans."""
        return self._texts[0]

    @property
    def blocks(self) -> list[_Text]:
        """Every block that is sent, without its spans."""
        return self._texts[1]

    @cached_property
    def _texts(self) -> tuple[list[_Text], list[_Text]]:
        with tracing():
            return self._find_texts()

    def _find_texts(self) -> tuple[list[_Text], list[_Text]]:
        plan, payload, traced = self._plan, self._payload, self._build.plan
        known = _sent(traced, payload)
        text_of = self._build.text_of
        whole = {} if text_of is None else {id(block.content): block for block in traced.blocks}
        if text_of is not None and not all(id(text) in whole for _, _, text in known):
            # Blocks were joined or changed on their way into messages: their texts must be traced before that.
            traced = traced.with_blocks(_with_text(block, text_of(block)) for block in traced.blocks)
            known, whole = _sent(traced, payload), {}
        if self._build.exact:
            return (
                [_Text(text, True, whole.get(id(text)), role, place) for place, role, text in known],
                [
                    _Text(each.content, True, whole.get(id(each.content)), each.role, each.id, _tokens(plan, each))
                    for each in traced.blocks
                    if each.enabled
                ],
            )
        # Text that the application added after the build is in no file: its block is the source.
        built = {block.id for block in traced.blocks}
        own = {block.content: block for block in plan.blocks if block.id not in built}
        sent, texts = _sent(plan, payload), [text for _, _, text in known]
        contents = [block.content for block in traced.blocks]
        return (
            [
                _Text(*_twin(text, texts, index, whole, own), role, place)
                for index, (place, role, text) in enumerate(sent)
            ],
            [
                _Text(*_twin(block.content, contents, index, whole, own), block.role, block.id, _tokens(plan, block))
                for index, block in enumerate(plan.blocks)
                if block.enabled
            ],
        )

    def message(self, index: int) -> MappedText:
        """Return a message with its spans."""
        return self._mapped(self.messages[index])

    def block(self, index: int) -> MappedText:
        """Return a block with its spans."""
        return self._mapped(self.blocks[index])

    def given(self) -> Iterator[TextSource]:
        """Return the inputs of the build; a source may occur twice."""
        return map(self._spans.source, self._given)

    def unused(self) -> dict[TextSource, str]:
        """Return what the build did not use, with the reason."""
        return {
            self._spans.source(origin): plain(reason)
            for text, reason in self._build.unused()
            for _, _, origin, _, _ in pieces_of(text)
            if origin is not None
        }

    def _mapped(self, text: _Text) -> MappedText:
        text_of = self._build.text_of
        traced = text.traced if text.block is None or text_of is None else text_of(text.block)
        return MappedText(plain(traced), self._spans.spans(traced), text.role, text.id, text.tokens)


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
    """Return the traced version of a text; if there is none, it is compared with the text in its place."""
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


class _SpanMaker:
    """Turns pieces into spans, with one source for all pieces of an origin."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Origin, TextSource]] = {}
        self._known: dict[int, tuple[str, tuple[Span, ...]]] = {}

    def spans(self, text: str) -> tuple[Span, ...]:
        """Return the spans of a text, cached: most messages are also blocks."""
        pieces = pieces_of(text)
        if len(pieces) == 1 and pieces[0][4] is None:
            return (self._leaf(pieces[0]),)
        known = self._known.get(id(text))
        if known is None:
            known = self._known[id(text)] = text, tuple(self._spans(pieces))
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
            source = TextSource(
                origin.kind, plain(origin.name), origin.pointer, plain(origin.text), plain(origin.title)
            )
            made = self._made[id(origin)] = origin, source
        return made[1]


def _outermost(piece: Piece) -> Change | None:
    via = piece[4]
    return None if via is None else via.change
