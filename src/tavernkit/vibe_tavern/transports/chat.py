"""A chat in one call, on any transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tavernkit.arguments import checked
from tavernkit.values import Json, JsonObject, is_list, is_object, thaw, thaw_object
from tavernkit.vibe_tavern.transports import chat_body
from tavernkit.vibe_tavern.transports.base import ChatChunk, ChatResponse, Transport
from tavernkit.vibe_tavern.transports.tool_call_deltas import ToolCalls

DEFAULT_TOP_LOGPROBS: Final = 5


@dataclass(frozen=True, slots=True)
class ChatResult:
    """An answer, read."""

    content: str
    usage: JsonObject | None
    finish_reason: str | None
    logprobs: JsonObject | None
    response: ChatResponse
    tool_calls: tuple[JsonObject, ...] = ()


@checked
async def chat(
    transport: Transport,
    *,
    model: str,
    messages: Sequence[Mapping[str, object]],
    on_delta: Callable[[str], object] | None = None,
    include_usage: bool = True,
    request_logprobs: bool = False,
    top_logprobs: int = DEFAULT_TOP_LOGPROBS,
    **options: Json,
) -> ChatResult:
    """Send messages and read the answer; with ``on_delta`` it is streamed, and each piece of text handed over.

    No configuration, no checks, no transforms: those are the job of ``PromptRunner``.
    """
    request: JsonObject = {"model": model, "messages": [thaw_object(message) for message in messages]}
    request |= {name: thaw(value) for name, value in options.items()}
    if request_logprobs:
        request |= {"logprobs": True, "top_logprobs": top_logprobs}
    if on_delta is None:
        return _result(await transport.complete(request))
    request["stream"] = True
    if include_usage:
        request["stream_options"] = {"include_usage": True}
    chunks: list[ChatChunk] = []
    async with transport.stream(request) as stream:
        async for chunk in stream:
            chunks.append(chunk)
            if chunk.text:
                on_delta(chunk.text)
    return _joined(chunks)


def _result(response: ChatResponse) -> ChatResult:
    body = response.body
    message = chat_body.assistant_message(body)
    calls = message.get("tool_calls")
    logprobs = chat_body.first_choice(body).get("logprobs")
    return ChatResult(
        content=chat_body.content_text(message.get("content")),
        usage=chat_body.usage(body),
        finish_reason=chat_body.finish_reason(body),
        logprobs=logprobs if is_object(logprobs) else None,
        response=response,
        tool_calls=tuple(call for call in calls if is_object(call)) if is_list(calls) else (),
    )


def _joined(chunks: Sequence[ChatChunk]) -> ChatResult:
    usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage), None)
    calls = ToolCalls()
    for delta in (delta for chunk in chunks for delta in chunk.tool_calls):
        calls.add(delta)
    return ChatResult(
        content="".join(chunk.text for chunk in chunks),
        usage=usage,
        finish_reason=next((chunk.finish_reason for chunk in reversed(chunks) if chunk.finish_reason), None),
        logprobs=next((chunk.logprobs for chunk in reversed(chunks) if chunk.logprobs), None),
        response=ChatResponse(body={} if usage is None else {"usage": usage}),
        tool_calls=tuple(calls.assembled()),
    )
