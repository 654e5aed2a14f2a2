"""Streams the last answer of a tool loop again, with its output tags: an extra request without tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._text.strict_json import byte_length
from tavernkit._text.verbatim_masker import mask
from tavernkit._values import JsonObject
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Message
from tavernkit.vibe_tavern import _events as events
from tavernkit.vibe_tavern._options import is_blank
from tavernkit.vibe_tavern._output_tags import (
    OutputTagsConfig,
    SanitizerRegistry,
    apply_rule,
    default_sanitizers,
    find_tags,
    lang_spans,
    transform,
)
from tavernkit.vibe_tavern._prompt_runner import PromptRequest, PromptRunner

SUFFIX: Final = "Tool use is over. Answer the user now from the tool results above and ask for no further tools."
"""The end of the system text in the extra request."""


@dataclass(frozen=True, slots=True)
class FinalStreamResult:
    """The streamed text, or None if the first answer is kept; ``trace`` says what happened."""

    text: str | None
    trace: JsonObject


async def final_stream(
    runner: PromptRunner,
    build: Callable[[], PromptRequest],
    *,
    history: Sequence[Message],
    turn: int,
    emit: events.EventEmitter,
) -> FinalStreamResult:
    """Stream the answer again; on any error, the first answer is kept."""
    emit(events.FINAL_STREAM_START, turn=turn, messages_count=len(history))
    try:
        request = build()
        output_tags = request.config.output_tags
        sanitizers = request.config.infrastructure.sanitizers
        shown = OutputTagsStream(output_tags, sanitizers=sanitizers)

        def deliver(text: str) -> None:
            if text:
                emit(events.FINAL_STREAM_DELTA, turn=turn, delta=text)

        result = await runner.perform_stream(request, on_delta=lambda delta: deliver(shown.feed(delta)))
        deliver(shown.finish())
    except ConfigError as error:
        emit(events.FINAL_STREAM_SKIPPED, turn=turn, message=str(error), code=error.code)
        return FinalStreamResult(None, _trace(ok=False, skipped_reason=error.code))
    except Exception as error:  # noqa: BLE001  # there is an answer already: it must not be lost
        emit(events.FINAL_STREAM_ERROR, turn=turn, **events.error_fields(error))
        return FinalStreamResult(None, _trace(ok=False, skipped_reason=f"{type(error).__name__}: {error}"))
    size = byte_length(result.text)
    emit(
        events.FINAL_STREAM_END,
        turn=turn,
        elapsed_ms=result.elapsed_ms,
        finish_reason=result.finish_reason,
        assistant_content_bytes=size,
        usage=result.usage,
    )
    trace = _trace(
        ok=True,
        elapsed_ms=result.elapsed_ms,
        finish_reason=result.finish_reason,
        usage=result.usage,
        assistant_content_bytes=size,
    )
    if is_blank(result.text):  # the events have ended as usual, but the first answer is kept
        return FinalStreamResult(None, {**trace, "ok": False, "skipped_reason": "EMPTY_ANSWER"})
    return FinalStreamResult(transform(result.text, output_tags, sanitizers=sanitizers).text, trace)


def stream_system_text(system: str) -> str:
    """The system text of the extra request."""
    return SUFFIX if is_blank(system) else f"{system}\n\n{SUFFIX}"


def _trace(
    *,
    ok: bool,
    elapsed_ms: int | None = None,
    finish_reason: str | None = None,
    usage: JsonObject | None = None,
    assistant_content_bytes: int | None = None,
    skipped_reason: str | None = None,
) -> JsonObject:
    return {
        "ok": ok,
        "elapsed_ms": elapsed_ms,
        "finish_reason": finish_reason,
        "usage": usage,
        "assistant_content_bytes": assistant_content_bytes,
        "skipped_reason": skipped_reason,
    }


_TRIGGER = re.compile(r"[`{<\\]")
_INLINE_CODE = re.compile(r"`[^`]*`")
_SETTLING = re.compile(r"[`>}%]")
"""Characters that a piece must contain to complete something, unless the buffer ends in the middle of something."""

_LOOKED_AT_EVERY_TIME = 1024
_LONG = 16_384
_LOOK_AGAIN_AFTER = 16
"""A longer buffer is checked again when it has grown by a sixteenth, a very long one by a half."""


class OutputTagsStream:
    """Filters deltas; the joined output equals the result for the whole text, whose warnings are not repeated.

    With an application's own sanitizer, which may look at the whole text, everything comes at the end.
    """

    def __init__(self, config: OutputTagsConfig, *, sanitizers: SanitizerRegistry = default_sanitizers) -> None:
        self._config = replace(config, warn=False, warner=None)
        self._sanitizers = sanitizers
        self._pieces: list[str] = []
        self._length = 0
        self._next_look = 0
        found = [(sanitizers.get(name), options) for name, options in config.enabled_sanitizers]
        self._spans = [options for sanitizer, options in found if sanitizer is lang_spans]
        self._wants_whole_text = any(sanitizer not in (None, lang_spans) for sanitizer, _ in found)

    def feed(self, delta: str) -> str:
        """Add a piece of the answer; return what can be shown now."""
        if not self._config.enabled:
            return delta
        if not delta:
            return ""
        before = self._pieces[-1] if self._pieces else ""
        self._pieces.append(delta)
        self._length += len(delta)
        if self._wants_whole_text:
            return ""
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
        # Removing a tag may leave others that were not there before, so what each step sees must be complete.
        for options in self._spans:
            if not _tags_are_complete(masked, "lang"):
                return False
            masked, _ = lang_spans(masked, options)
        for rule in self._config.rules:
            if not _tags_are_complete(masked, rule.tag):
                return False
            masked = apply_rule(masked, rule)
        return True


def _tags_are_complete(masked: str, name: str) -> bool:
    depth = 0
    for tag in find_tags(masked, name):
        depth = max(depth - 1, 0) if tag.closing else depth + 1
    return depth == 0 and masked.rfind("<") <= masked.rfind(">")


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
