"""Anthropic's messages API: its requests, and how its replies are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_list,
    is_object,
    is_sequence,
)
from tavernkit.dialects._shapes import ANTHROPIC_THINKING
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

API_VERSION: Final = "2023-06-01"
_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class AnthropicModel(HttpModel):
    """A model from Anthropic.

    >>> AnthropicModel("claude-sonnet-4-5", Endpoint(base_url=url, api_key=key))    # doctest: +SKIP
    """

    dialect = "anthropic"
    default_endpoint = Endpoint(base_url="https://api.anthropic.com")

    def path(self, request: Request, *, stream: bool) -> str:
        """The messages API."""
        del request, stream
        return "/messages"

    def headers(self, request: Request | None) -> dict[str, str]:
        """The key, the version of the API, and the option ``betas``."""
        headers = {"anthropic-version": API_VERSION}
        if self.endpoint.api_key:
            headers["x-api-key"] = self.endpoint.api_key
        betas = request.options.get("betas") if request is not None else None
        if betas:
            headers["anthropic-beta"] = ",".join(map(str, betas)) if is_sequence(betas) else str(betas)
        return headers

    def reader(self) -> AnthropicReader:
        """Reads one reply."""
        return AnthropicReader()


class AnthropicReader(ReaderState):
    """Reads one reply."""

    def __init__(self) -> None:
        super().__init__()
        self._usage: JsonObject = {}
        self._thinking: dict[int, JsonObject] = {}
        self._calls: dict[int, int] = {}
        """Indexes of tool calls by the numbers of their blocks."""
        self._without_arguments: set[int] = set()

    def read(self, event: JsonObject) -> ReplyPiece:
        """Translate a body or an event of a stream."""
        self.last = event
        kind = event.get("type")
        if kind == "error" or reports_error(event):
            raise provider_error(event)
        if kind == "message_stop":
            self.done = True
        if kind == "message_start":
            return self._message_start(event)
        if kind == "message_delta":
            return self._message_delta(event)
        if kind == "content_block_start":
            return self._block_start(event)
        if kind == "content_block_stop":
            number = number_of(event.get("index"))
            return ReplyPiece(
                tool_calls=self._arguments(number, EMPTY_ARGUMENTS) if number in self._without_arguments else ()
            )
        if kind == "content_block_delta":
            return self._block_delta(event)
        return self._whole(event) if "content" in event else ReplyPiece()

    def _message_start(self, event: JsonObject) -> ReplyPiece:
        message = event.get("message")
        message = message if is_object(message) else {}
        self._count(message.get("usage"))
        self.said = True
        return ReplyPiece(model=text_of(message.get("model")))

    def _message_delta(self, event: JsonObject) -> ReplyPiece:
        delta = event.get("delta")
        reason = delta.get("stop_reason") if is_object(delta) else None
        self._count(event.get("usage"))
        self._end(reason)
        return ReplyPiece(
            finish_reason=_finish_reason(reason),
            usage=_usage(self._usage),
            extra=_extra([self._thinking[number] for number in sorted(self._thinking)]),
            raw=freeze_object(event),
        )

    def _block_start(self, event: JsonObject) -> ReplyPiece:
        number, block = number_of(event.get("index")), event.get("content_block")
        if not is_object(block):
            return ReplyPiece()
        if block.get("type") in ANTHROPIC_THINKING:
            self._thinking[number] = dict(block)
        if block.get("type") != "tool_use":
            # Empty from Anthropic itself; other servers begin with the text.
            return ReplyPiece(text=text_of(block.get("text")), reasoning=text_of(block.get("thinking")))
        place = self._calls[number] = len(self._calls)
        given = block.get("input")
        if not given:
            self._without_arguments.add(number)
        return ReplyPiece(
            tool_calls=(
                ToolCallPiece(
                    index=place,
                    id=text_of(block.get("id")) or None,
                    name=text_of(block.get("name")),
                    arguments=arguments_text(given),
                ),
            )
        )

    def _block_delta(self, event: JsonObject) -> ReplyPiece:
        delta, number = event.get("delta"), number_of(event.get("index"))
        if not is_object(delta):
            return ReplyPiece()
        if (block := self._thinking.get(number)) is not None:
            for key in ("thinking", "signature"):
                if text_of(delta.get(key)):
                    block[key] = text_of(block.get(key)) + text_of(delta.get(key))
        return ReplyPiece(
            text=text_of(delta.get("text")),
            reasoning=text_of(delta.get("thinking")),
            tool_calls=self._arguments(number, text_of(delta.get("partial_json"))),
        )

    def _arguments(self, number: int, fragment: str) -> tuple[ToolCallPiece, ...]:
        if not fragment or number not in self._calls:
            return ()
        self._without_arguments.discard(number)
        return (ToolCallPiece(index=self._calls[number], arguments=fragment),)

    def _whole(self, body: JsonObject) -> ReplyPiece:
        content = body.get("content")
        blocks = [block for block in content if is_object(block)] if is_list(content) else []
        self.said = is_list(content)
        self._end(body.get("stop_reason"))
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        return ReplyPiece(
            text=_join(blocks, "text"),
            reasoning=_join(blocks, "thinking"),
            tool_calls=tuple(_call(at, block) for at, block in enumerate(calls)),
            finish_reason=_finish_reason(body.get("stop_reason")),
            usage=_usage(body.get("usage")),
            model=text_of(body.get("model")),
            extra=_extra([block for block in blocks if block.get("type") in ANTHROPIC_THINKING]),
            raw=freeze_object(body),
        )

    def _count(self, counts: Json) -> None:
        self._usage.update(counts if is_object(counts) else {})

    def _end(self, reason: Json) -> None:
        self.reason = text_of(reason) or self.reason


def _finish_reason(reason: Json) -> FinishReason | None:
    return _FINISH_REASONS.get(reason, "unknown") if isinstance(reason, str) else None


def _usage(counts: Json) -> Usage | None:
    """Tokens that were read from or written to the cache are part of the input."""
    if not is_object(counts):
        return None
    cached = number_of(counts.get("cache_read_input_tokens"))
    written = number_of(counts.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=number_of(counts.get("input_tokens")) + cached + written,
        output_tokens=number_of(counts.get("output_tokens")),
        cached_tokens=cached,
        reported=True,
    )


def _call(place: int, block: JsonObject) -> ToolCallPiece:
    return ToolCallPiece(
        index=place,
        id=text_of(block.get("id")) or None,
        name=text_of(block.get("name")),
        arguments=arguments_text(block.get("input")) or EMPTY_ARGUMENTS,
    )


def _join(blocks: list[JsonObject], kind: str) -> str:
    return "".join(text_of(block.get(kind)) for block in blocks if block.get("type") == kind)


def _extra(thinking: list[JsonObject]) -> FrozenObject:
    return freeze_object({"thinking": thinking}) if thinking else EMPTY_OBJECT
