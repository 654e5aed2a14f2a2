"""Where every character of a prompt came from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING

from tavernkit._values import Json, JsonObject, LazySequence, counted
from tavernkit.prompt._source_owners import Owned, merged, owned_parts
from tavernkit.prompt._source_spans import KINDS, Cost, MappedText, Place, Span, TextSource, Use

if TYPE_CHECKING:
    from tavernkit.prompt._source_mapping import TracedTexts


class SourceMap:
    """The spans of every message, or of the text prompt, and of every block.

    ``messages`` is what is sent, ``blocks`` what it was made from, ``costs`` the tokens of each source in each block.
    ``exact`` is False if the prompt could not be built again as it was (for example, because a hook is random); spans
    of texts that differ are ``aligned``.
    """

    def __init__(self, texts: TracedTexts) -> None:
        self._texts = texts

    def __repr__(self) -> str:
        """Return a one-line summary: a map is as long as its prompt."""
        texts = counted(len(self.messages), "text")
        return f"<{type(self).__name__} of {texts}; where(), at() and uses() read it>"

    def __getstate__(self) -> dict[str, object]:
        """A pickle contains the finished spans."""
        return {
            "exact": self.exact,
            "messages": self.messages,
            "blocks": self.blocks,
            "costs": self.costs,
            "given": self.given,
            "_unused": self._unused,
            "_words": [text.text for text in self.messages],
        }

    @cached_property
    def exact(self) -> bool:
        """True if the prompt was rebuilt exactly."""
        return self._texts.exact

    @cached_property
    def messages(self) -> Sequence[MappedText]:
        """Every message that is sent, or the text prompt; spans are made on demand."""
        return LazySequence(len(self._words), cache(self._texts.message))

    @cached_property
    def blocks(self) -> Sequence[MappedText]:
        """Every block that is sent, with its spans and tokens."""
        return LazySequence(len(self._texts.blocks), cache(self._texts.block))

    @cached_property
    def _words(self) -> Sequence[str]:
        """The texts of the messages."""
        return self._texts.words

    @cached_property
    def costs(self) -> tuple[Cost, ...]:
        """The tokens of each source in each block; they add up to the block's tokens.

        Text that a macro gave counts for the lore entry, field or line that the macro is written in; what a prompt of a
        preset or a template places (``{{description}}``) counts for that.
        """
        return tuple(cost for block in self.blocks for cost in _costs(block, self._texts.count))

    @cached_property
    def given(self) -> tuple[TextSource, ...]:
        """Every input text that could have been in the prompt, including all lore."""
        return tuple(dict.fromkeys((*self._texts.given(), *self.sources, *self._unused)))

    @cached_property
    def _unused(self) -> dict[TextSource, str]:
        """Inputs that the build did not use, and why."""
        return self._texts.unused()

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """Every source that is in the prompt, in the order of its first use."""
        found: dict[TextSource, None] = {}
        for text in self.messages:
            for span in text.spans:
                found.update(dict.fromkeys(span.sources))
        return tuple(found)

    def where(self, words: str) -> list[Place]:
        """Find words in the prompt and where they came from."""
        found: list[Place] = []
        for index, text in enumerate(self._words):
            at = text.find(words) if words else -1
            while at >= 0:
                found.append(_place(index, self.messages[index], at, at + len(words)))
                at = text.find(words, at + len(words))
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
        """Return where sources went; a text selects those whose id or title contains it (``lore:The lamp``).

        This includes inputs that are not in the prompt. For lore and chat lines, the use says why. Places contain what
        macros of the source gave, and words of the source that macros of others gave; tokens are those of ``costs``.
        """
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
        """The whole map, ready for ``json``: sources once, spans with their ids."""
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
        for index, (text, parts) in enumerate(zip(self.messages, self._owned, strict=True)):
            mine = [(start, end) for start, end, owner in parts if owner == source]
            for span in text.spans:
                mine += [(leaf.start, leaf.end) for leaf in span.leaves() if leaf.source == source]
                arrived += _arrived(span, source)
            places += [_place(index, text, start, end) for start, end in merged(mine)]
        tokens = sum(cost.tokens for cost in self.costs if cost.source == source)
        reason = "" if places else self._unused.get(source, "")
        return Use(source, tuple(places), tokens, tuple(_gaps(arrived, len(source.text))), reason)

    @cached_property
    def _owned(self) -> list[list[Owned]]:
        """For every message, which source its characters count for."""
        return [list(owned_parts(text.spans)) for text in self.messages]


def _place(index: int, text: MappedText, start: int, end: int) -> Place:
    first = bisect_right(text.spans, start, key=lambda span: span.end)
    last = bisect_left(text.spans, end, key=lambda span: span.start)
    return Place(index, start, end, text.text[start:end], text.spans[first:last])


def _arrived(span: Span, source: TextSource) -> list[tuple[int, int]]:
    """Return the parts of a source's text that are in a span: its words, and macros that were replaced by others."""
    if span.source is not None:
        return [(span.offset, span.offset + len(span))] if span.source == source else []
    inner = [part for each in span.inner for part in _arrived(each, source)]
    if span.kind != "expanded" or inner:
        return inner
    return [part for each in span.written for part in _arrived(each, source)]


def _gaps(arrived: list[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    at = 0
    for start, end in sorted(arrived):
        if start > at:
            yield at, start
        at = max(at, end)
    if at < length:
        yield at, length


def _costs(block: MappedText, count: Callable[[str], int]) -> Iterator[Cost]:
    """Divide a block's tokens among its sources, in proportion to the tokens of their texts."""
    texts: dict[TextSource | None, list[str]] = {}
    for start, end, source in owned_parts(block.spans):
        texts.setdefault(source, []).append(block.text[start:end])
    if len(texts) < 2:
        yield Cost(block.id, next(iter(texts), None), block.tokens)
        return
    weights = [max(count("".join(parts)), 0) for parts in texts.values()]
    for source, tokens in zip(texts, shared(block.tokens, weights), strict=True):
        yield Cost(block.id, source, tokens)


def shared(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a whole number in proportion to weights; the parts add up to it."""
    whole = sum(weights)
    if not whole:
        return [total if index == 0 else 0 for index in range(len(weights))]
    shares = [total * weight // whole for weight in weights]
    rests = sorted(range(len(weights)), key=lambda index: (-(total * weights[index] % whole), index))
    for index in rests[: total - sum(shares)]:
        shares[index] += 1
    return shares
