"""Cohere's chat API, version 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tavernkit._values import Json, JsonObject, freeze_object, is_list, is_object
from tavernkit.models._endpoint import Endpoint
from tavernkit.models._openai import OpenAIModel
from tavernkit.models._readers import (
    Reader,
    ReaderState,
    arguments_text,
    number_of,
    provider_error,
    reports_error,
    text_of,
)
from tavernkit.models._reply import FinishReason, ReplyPiece, ToolCallPiece, Usage
from tavernkit.models._request import Request

_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool_calls",
    "ERROR": "error",
    "ERROR_TOXIC": "content_filter",
    "TIMEOUT": "error",
}
_DELTAS: Final = ("content-start", "content-delta", "tool-plan-delta", "tool-call-start", "tool-call-delta")


class CohereModel(OpenAIModel):
    """A model from Cohere."""

    default_endpoint = Endpoint(base_url="https://api.cohere.com", api_prefix="/v2")

    def path(self, request: Request, *, stream: bool) -> str:
        """The chat API."""
        del request, stream
        return "/chat"

    def protocol_of(self, request: Request) -> str:
        """Always Cohere's own."""
        del request
        return "cohere_v2"

    def reader(self) -> Reader:
        """Reads one reply."""
        return CohereReader()


class CohereReader(ReaderState):
    """Reads one reply."""

    def read(self, event: JsonObject) -> ReplyPiece:
        """Translate a body or an event of a stream."""
        self.last = event
        kind = event.get("type")
        if reports_error(event) or (kind is None and "message" in event and isinstance(event["message"], str)):
            raise provider_error(event)
        delta = _object(event.get("delta"))
        if kind == "message-start":
            self.said = True
            return ReplyPiece()
        if kind == "message-end":
            if delta.get("error"):
                raise provider_error(delta)
            return self._end(delta)
        if kind in _DELTAS:
            return _piece(_object(delta.get("message")), number_of(event.get("index")))
        return self._whole(event) if kind is None else ReplyPiece()

    def _whole(self, body: JsonObject) -> ReplyPiece:
        message = _object(body.get("message"))
        ended, said = self._end(body), _piece(message, 0)
        self.said = said.spoken or message.get("content") is not None
        return ReplyPiece(
            text=said.text,
            reasoning=said.reasoning,
            tool_calls=said.tool_calls,
            finish_reason=ended.finish_reason,
            usage=ended.usage,
            raw=ended.raw,
        )

    def _end(self, owner: JsonObject) -> ReplyPiece:
        reason = text_of(owner.get("finish_reason"))
        self.ended, self.reason = True, reason
        tokens = _object(_object(owner.get("usage")).get("tokens"))
        usage = Usage(
            input_tokens=number_of(tokens.get("input_tokens")),
            output_tokens=number_of(tokens.get("output_tokens")),
            reported=True,
        )
        return ReplyPiece(
            finish_reason=_FINISH_REASONS.get(reason, "unknown"),
            usage=usage if tokens else None,
            raw=freeze_object(owner),
        )


def _piece(message: JsonObject, index: int) -> ReplyPiece:
    content, calls = message.get("content"), message.get("tool_calls")
    parts = [part for part in content if is_object(part)] if is_list(content) else [_object(content)]
    listed = [call for call in calls if is_object(call)] if is_list(calls) else [calls] if is_object(calls) else []
    return ReplyPiece(
        text="".join(text_of(part.get("text")) for part in parts),
        # The model's plan for its tools counts as reasoning, not text.
        reasoning="".join(text_of(part.get("thinking")) for part in parts) + text_of(message.get("tool_plan")),
        tool_calls=tuple(_call(index + place, call) for place, call in enumerate(listed)),
    )


def _call(index: int, call: JsonObject) -> ToolCallPiece:
    function = _object(call.get("function"))
    return ToolCallPiece(
        index=index,
        id=text_of(call.get("id")) or None,
        name=text_of(function.get("name")) or None,
        arguments=arguments_text(function.get("arguments")),
    )


def _object(value: Json) -> JsonObject:
    return value if is_object(value) else {}
