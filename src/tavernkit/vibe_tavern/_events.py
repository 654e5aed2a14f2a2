"""Events of a run, as they happen.

An event is a mapping with a ``type`` and the fields that the type has. Events contain sizes, names, codes and messages,
but no prompts, no answers (except ``final_stream_delta``) and no keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tavernkit._values import Json, JsonObject, thaw
from tavernkit.errors import ConfigError, Warn, log_warning

EventHandler: TypeAlias = Callable[[JsonObject], object]
"""Called with each event; its errors are logged and do not affect the run."""

LLM_REQUEST_START = "llm_request_start"
LLM_REQUEST_ERROR = "llm_request_error"
LLM_REQUEST_RETRY = "llm_request_retry"
LLM_REQUEST_END = "llm_request_end"
TOOL_CALL_START = "tool_call_start"
TOOL_CALL_END = "tool_call_end"
FIX_EMPTY_FINAL = "fix_empty_final"
FINAL = "final"
FINAL_STREAM_START = "final_stream_start"
FINAL_STREAM_DELTA = "final_stream_delta"
FINAL_STREAM_END = "final_stream_end"
FINAL_STREAM_SKIPPED = "final_stream_skipped"
FINAL_STREAM_ERROR = "final_stream_error"


class EventEmitter:
    """Passes events to a handler, if there is one."""

    def __init__(self, handler: EventHandler | None, *, warn: Warn = log_warning) -> None:
        self._handler = handler
        self._warn = warn

    def __call__(self, kind: str, **fields: object) -> None:
        """Emit an event."""
        if self._handler is None:
            return
        event: JsonObject = {"type": kind}
        event.update({name: thaw(value) for name, value in fields.items()})
        try:
            self._handler(event)
        except Exception as error:  # noqa: BLE001  # a watcher must not disturb what it watches
            self._warn(f"an event handler failed on {kind}: {type(error).__name__}: {error}")


def error_fields(error: BaseException) -> dict[str, Json]:
    """The fields that describe an error: its class and message, and the code of a configuration error."""
    fields: dict[str, Json] = {"error_class": type(error).__name__, "message": str(error)}
    if isinstance(error, ConfigError):
        fields["code"] = error.code
    return fields
