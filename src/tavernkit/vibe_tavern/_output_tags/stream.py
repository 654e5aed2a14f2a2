"""Output tags for streams: text is returned as soon as nothing that follows can change it."""

from __future__ import annotations

import re

from tavernkit._text.verbatim_masker import mask
from tavernkit.vibe_tavern._output_tags.config import OutputTagsConfig
from tavernkit.vibe_tavern._output_tags.transform import SanitizerRegistry, default_sanitizers, find_tags, transform

_TRIGGER = re.compile(r"[`{<\\]")
_INLINE_CODE = re.compile(r"`[^`]*`")
_SETTLING = re.compile(r"[`>}%]")
"""Characters that a piece must contain to complete something, unless the buffer ends in the middle of something."""

_LOOKED_AT_EVERY_TIME = 1024
_LONG = 16_384
_LOOK_AGAIN_AFTER = 16
"""A longer buffer is checked again when it has grown by a sixteenth, a very long one by a half."""


class OutputTagsStream:
    """Filters deltas; the joined output equals the result for the whole text."""

    def __init__(self, config: OutputTagsConfig, *, sanitizers: SanitizerRegistry = default_sanitizers) -> None:
        self._config = config
        self._sanitizers = sanitizers
        self._pieces: list[str] = []
        self._length = 0
        self._next_look = 0
        names = [rule.tag for rule in config.rules] + [rule.to for rule in config.rules if rule.to]
        if config.enabled_sanitizers:
            names.append("lang")
        self._tags = tuple(dict.fromkeys(names))

    def feed(self, delta: str) -> str:
        """Add a piece of the answer; return what can be shown now."""
        if not self._config.enabled:
            return delta
        if not delta:
            return ""
        before = self._pieces[-1] if self._pieces else ""
        self._pieces.append(delta)
        self._length += len(delta)
        may_settle = not before or before.endswith(("`", "\\", "{")) or _SETTLING.search(delta)
        if not may_settle or self._length < self._next_look:
            return ""
        held = "".join(self._pieces)
        first = _TRIGGER.search(held)
        if first is None or self._is_complete(held):
            return self._release(held, len(held))
        shown = self._release(held, first.start())
        # Long open parts are checked less and less often, so that the cost stays linear.
        if self._length > _LOOKED_AT_EVERY_TIME:
            self._next_look = self._length + self._length // (_LOOK_AGAIN_AFTER if self._length < _LONG else 2)
        return shown

    def finish(self) -> str:
        """Return the rest of the text at the end of the stream."""
        return self._release("".join(self._pieces), self._length)

    def _release(self, held: str, end: int) -> str:
        self._pieces = [held[end:]] if end < len(held) else []
        self._length = len(held) - end
        self._next_look = 0
        return transform(held[:end], self._config, sanitizers=self._sanitizers).text if end else ""

    def _is_complete(self, text: str) -> bool:
        """Return True if every piece of code, template and tag in the text is complete, whatever may follow."""
        if text.endswith(("`", "\\", "{")) or not _code_and_templates_are_complete(text):
            return False
        masked, _ = mask(text, self._config.escape_hatch)
        if masked.rfind("<") > masked.rfind(">"):
            return False
        return all(self._is_balanced(masked, tag) for tag in self._tags)

    def _is_balanced(self, masked: str, name: str) -> bool:
        depth = 0
        for tag in find_tags(masked, name):
            depth = max(depth - 1, 0) if tag.closing else depth + 1
        return depth == 0


def _code_and_templates_are_complete(text: str) -> bool:
    """Return True if nothing that follows could turn the text into code or a template."""
    outside_fences = text.split("```")
    if len(outside_fences) % 2 == 0:
        return False
    rest = "\0".join(outside_fences[::2])
    if rest.count("`") % 2:
        return False
    rest = _INLINE_CODE.sub("\0", rest)
    return all(_is_closed(rest, opening, closing) for opening, closing in (("{{", "}}"), ("{%", "%}")))


def _is_closed(text: str, opening: str, closing: str) -> bool:
    start = text.rfind(opening)
    return start < 0 or text.find(closing, start + len(opening)) >= 0
