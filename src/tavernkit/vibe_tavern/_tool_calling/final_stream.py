"""Streams the last answer of a tool loop again: an extra request without tools, on a best-effort basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._text.strict_json import byte_length
from tavernkit._values import JsonObject
from tavernkit.errors import ConfigError
from tavernkit.prompt._message import Message
from tavernkit.vibe_tavern import _events as events
from tavernkit.vibe_tavern._options import is_blank
from tavernkit.vibe_tavern._output_tags.stream import OutputTagsStream
from tavernkit.vibe_tavern._output_tags.transform import transform
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
    if is_blank(result.text):
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
