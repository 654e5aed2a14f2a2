"""Google's Gemini API: its requests, and how its replies are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tavernkit._values import JsonObject, freeze_object, is_list, is_object
from tavernkit.models._endpoint import Endpoint
from tavernkit.models._http import HttpModel
from tavernkit.models._readers import (
    ReaderState,
    arguments_text,
    number_of,
    provider_error,
    reports_error,
    text_of,
)
from tavernkit.models._reply import FinishReason, ReplyPiece, ToolCallPiece, Usage
from tavernkit.models._request import Request
from tavernkit.models._streams import EMPTY_ARGUMENTS

API_VERSION: Final = "v1beta"
_BLOCKED: Final = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE")
_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "MALFORMED_FUNCTION_CALL": "error",
    **dict.fromkeys(_BLOCKED, "content_filter"),
}


class GoogleModel(HttpModel):
    """A model from Google. The endpoint's ``api_prefix`` is the version of the API, ``v1beta``."""

    dialect = "google"
    default_endpoint = Endpoint(base_url="https://generativelanguage.googleapis.com", api_prefix=API_VERSION)

    def path(self, request: Request, *, stream: bool) -> str:
        """The model is part of the path."""
        name = request.model if "/" in request.model else f"models/{request.model}"
        return f"/{name}:streamGenerateContent?alt=sse" if stream else f"/{name}:generateContent"

    def headers(self, request: Request | None) -> dict[str, str]:
        """The key; never in the address, because addresses are logged."""
        del request
        key = self.endpoint.api_key
        return {"x-goog-api-key": key} if key else {}

    def reader(self) -> GoogleReader:
        """Reads one reply."""
        return GoogleReader()


class VertexModel(GoogleModel):
    """A Google model on Vertex AI, with an API key (express mode)."""

    default_endpoint = Endpoint(base_url="https://aiplatform.googleapis.com", api_prefix="v1")

    def path(self, request: Request, *, stream: bool) -> str:
        """Models belong to a publisher."""
        name = request.model if "/" in request.model else f"publishers/google/models/{request.model}"
        return super().path(request.replace(model=name), stream=stream)


class GoogleReader(ReaderState):
    """Reads one reply."""

    def __init__(self) -> None:
        super().__init__()
        self._called = 0

    def read(self, event: JsonObject) -> ReplyPiece:
        """Translate a body or an event of a stream."""
        self.last = event
        if reports_error(event):
            raise provider_error(event)
        candidate, others = self.candidates(event.get("candidates"))
        parts = _parts(candidate)
        calls = [part for part in parts or () if is_object(part.get("functionCall"))]
        pieces = tuple(_call(self._called + at, part) for at, part in enumerate(calls))
        self._called += len(calls)
        refusal, reason = _block_reason(event), text_of(candidate.get("finishReason"))
        self.said = self.said or parts is not None or bool(refusal)
        self.reason = ": ".join(filter(None, (reason, text_of(candidate.get("finishMessage"))))) or self.reason
        self.ended = self.ended or bool(reason or refusal)
        usage = _usage(event)
        return ReplyPiece(
            text=_texts(parts or [], thought=False),
            reasoning=_texts(parts or [], thought=True),
            refusal=refusal,
            tool_calls=pieces,
            alternatives=tuple((number, _texts(_parts(other) or [], thought=False)) for number, other in others),
            finish_reason="content_filter" if refusal else self._finish_reason(reason),
            usage=usage,
            model=text_of(event.get("modelVersion")),
            raw=freeze_object(event) if reason or usage else None,
        )

    def _finish_reason(self, reason: str) -> FinishReason | None:
        if not reason:
            return None
        if self._called and reason == "STOP":
            return "tool_calls"
        return _FINISH_REASONS.get(reason, "unknown")


def _parts(candidate: JsonObject) -> list[JsonObject] | None:
    content = candidate.get("content")
    parts = content.get("parts") if is_object(content) else None
    return [part for part in parts if is_object(part)] if is_list(parts) else None


def _texts(parts: list[JsonObject], *, thought: bool) -> str:
    return "".join(text_of(part.get("text")) for part in parts if bool(part.get("thought")) is thought)


def _call(place: int, part: JsonObject) -> ToolCallPiece:
    called = part["functionCall"]
    assert is_object(called)
    signature = part.get("thoughtSignature")
    return ToolCallPiece(
        index=place,
        id=text_of(called.get("id")) or f"call_{place + 1}",
        name=text_of(called.get("name")),
        arguments=arguments_text(called.get("args")) or EMPTY_ARGUMENTS,
        extra=freeze_object({"signature": signature}) if signature else None,
    )


def _block_reason(body: JsonObject) -> str:
    feedback = body.get("promptFeedback")
    if not is_object(feedback):
        return ""
    return text_of(feedback.get("blockReasonMessage")) or text_of(feedback.get("blockReason"))


def _usage(body: JsonObject) -> Usage | None:
    """Thoughts are part of the output."""
    counts = body.get("usageMetadata")
    if not is_object(counts):
        return None
    thoughts = number_of(counts.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=number_of(counts.get("promptTokenCount")) + number_of(counts.get("toolUsePromptTokenCount")),
        output_tokens=number_of(counts.get("candidatesTokenCount")) + thoughts,
        cached_tokens=number_of(counts.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
        reported=True,
    )
