"""Readers of replies and streams: what all share, OpenAI's format, and those of text-completion servers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final, Protocol

from tavernkit._text import strict_json
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_list,
    is_mapping,
    is_object,
    is_sequence,
    thaw_object,
)
from tavernkit.models._reply import CUSTOM, FinishReason, ReplyPiece, ToolCallPiece, Usage
from tavernkit.models._streams import REASONING_DETAILS
from tavernkit.models.errors import ConnectionFailedError, ProviderError, error_text


class Reader(Protocol):
    """Translates what a provider sends, a whole body or the events of a stream, into pieces. One per reply."""

    done: bool
    """True once the provider has signalled the end."""

    def read(self, event: JsonObject) -> ReplyPiece:
        """Translate a body or an event. Raises ProviderError if it reports an error."""
        ...

    def finish(self, *, streamed: bool) -> None:
        """Raise if the reply is cut off or empty."""
        ...


class ReaderState:
    """Tracks whether a reply is complete: whether it has any content, and whether it ended."""

    def __init__(self) -> None:
        self.done = False
        self.said = False
        """True if there is a reply, even an empty text."""
        self.ended = False
        self.reason = ""
        self.last: JsonObject = {}
        self._candidate: int | None = None

    def candidates(self, listed: Json) -> tuple[JsonObject, list[tuple[int, JsonObject]]]:
        """Return the candidate that is the reply, and others with their numbers; an event has at least one of them.

        The reply is the candidate that comes first. Those of a stream come piece by piece, in any order.
        """
        own: JsonObject | None = None
        others: list[tuple[int, JsonObject]] = []
        for place, candidate in enumerate(listed if is_list(listed) else ()):
            if is_object(candidate):
                index = candidate.get("index")
                number = index if isinstance(index, int) else place
                if self._candidate is None:
                    self._candidate = number
                if own is None and number == self._candidate:
                    own = candidate
                else:
                    others.append((number, candidate))
        return own or {}, others

    def finish(self, *, streamed: bool) -> None:
        """Raise if the reply is cut off or empty."""
        if streamed and not (self.ended or self.done):
            # Some errors are not marked as such, but one that ends a stream has a message.
            if error_text(self.last):
                raise provider_error(self.last)
            raise ConnectionFailedError("the stream ended before the reply did", answering=True)
        if not self.said:
            raise ProviderError(_emptiness(self.reason, self.last), body=self.last)


def reports_error(event: JsonObject) -> bool:
    """Return True if a body or an event is an error, whatever the HTTP status was."""
    if event.get("error") or event.get("object") == "error":
        return True
    # FastAPI's errors are a detail, Cloudflare's a list, NovelAI's a status code and a message.
    listed = event.get("detail") or event.get("errors")
    return "choices" not in event and bool(listed or ("statusCode" in event and event.get("message")))


def provider_error(body: JsonObject) -> ProviderError:
    """Make the error that a provider reports inside a 200 response."""
    return ProviderError(error_text(body) or "the provider reported an error", body=body)


def _emptiness(reason: str, body: JsonObject) -> str:
    said = error_text(body)
    if said:
        return f"the provider sent no reply: {said}"
    return f"the provider sent an empty reply (finish reason: {reason})" if reason else "the provider sent no reply"


def text_of(value: Json) -> str:
    """Return a text, or empty text for anything else."""
    return value if isinstance(value, str) else ""


def number_of(value: Json) -> int:
    """Return a whole number, or zero for anything else."""
    return value if isinstance(value, int) else 0


def arguments_text(arguments: Json) -> str:
    """Return the arguments of a tool call as JSON, as the model wrote them; empty if there are none."""
    if isinstance(arguments, str):
        return arguments
    return strict_json.compact(arguments) if arguments else ""


CARRIED_KEYS: Final = ("signature", "thinking", REASONING_DETAILS)
"""Fields that providers add to a message and expect back with its tool calls."""

_CALL_KEYS: Final = frozenset(("index", "id", "type", "function", "custom"))
_OPENAI_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "error": "error",
}


class OpenAIReader(ReaderState):
    """Reads one reply."""

    def read(self, event: JsonObject) -> ReplyPiece:
        """Translate a body or an event of a stream."""
        if reports_error(event):
            raise provider_error(event)
        choice, others = self.candidates(event.get("choices"))
        if choice.get("error"):  # OpenRouter reports errors of the provider behind it with the choice
            raise provider_error(choice)
        delta = _delta(choice)
        reason = choice.get("finish_reason")
        piece = ReplyPiece(
            text=content_text(delta.get("content")),
            reasoning=text_of(delta.get("reasoning_content")) or text_of(delta.get("reasoning")),
            refusal=text_of(delta.get("refusal")),
            tool_calls=_call_pieces(delta.get("tool_calls")),
            alternatives=tuple((number, content_text(_delta(other).get("content"))) for number, other in others),
            finish_reason=_OPENAI_FINISH_REASONS.get(reason, "unknown") if isinstance(reason, str) else None,
            usage=_openai_usage(event.get("usage"), event.get("timings")),
            logprobs=_object(choice.get("logprobs")),
            model=text_of(event.get("model")),
            extra=_carried_fields(delta),
            raw=freeze_object(event) if reason or event.get("usage") or "message" in choice else None,
        )
        self.last = event
        # Older servers send function_call instead of tool_calls.
        self.said = self.said or piece.spoken or delta.get("content") is not None or bool(delta.get("function_call"))
        self.ended = self.ended or isinstance(reason, str)
        self.reason = reason if isinstance(reason, str) else self.reason
        return piece


def first_choice(body: Mapping[str, object]) -> JsonObject:
    """Return the first choice, or an empty one."""
    choices = body.get("choices")
    first = choices[0] if is_sequence(choices) and choices else None
    return thaw_object(first) if is_mapping(first) else {}


def content_text(content: object) -> str:
    """Return the text of a message's content: text, a part, or a list of parts (only those with text)."""
    if isinstance(content, str):
        return content
    if is_mapping(content):
        text = content.get("text")
        return text if isinstance(text, str) else ""
    if is_sequence(content):
        return "".join(content_text(part) for part in content)
    return ""


def _delta(choice: JsonObject) -> JsonObject:
    for key in ("delta", "message"):
        part = choice.get(key)
        if is_object(part):
            return part
    return {"content": choice.get("text")}


def _openai_usage(counts: Json, timings: Json = None) -> Usage | None:
    if not is_object(counts):
        return None
    prompt, completion = counts.get("prompt_tokens_details"), counts.get("completion_tokens_details")
    return Usage(
        input_tokens=number_of(counts.get("prompt_tokens")),
        output_tokens=number_of(counts.get("completion_tokens")),
        # DeepSeek reports cached tokens next to the others, llama.cpp with its timings.
        cached_tokens=number_of(prompt.get("cached_tokens") if is_object(prompt) else None)
        or number_of(counts.get("prompt_cache_hit_tokens"))
        or number_of(timings.get("cache_n") if is_object(timings) else None),
        reasoning_tokens=number_of(completion.get("reasoning_tokens") if is_object(completion) else None),
        reported=True,
    )


def _call_pieces(calls: Json) -> tuple[ToolCallPiece, ...]:
    listed = calls if is_list(calls) else [calls] if is_object(calls) else []
    return tuple(_call_piece(at, call) for at, call in enumerate(listed) if is_object(call))


def _call_piece(at: int, call: JsonObject) -> ToolCallPiece:
    function, custom = call.get("function"), call.get("custom")
    function = function if is_object(function) else {}
    index = call.get("index")
    extra = {key: value for key, value in call.items() if key not in _CALL_KEYS}
    if is_object(custom):
        function = {"name": custom.get("name"), "arguments": custom.get("input")}
        extra["type"] = CUSTOM
    return ToolCallPiece(
        index=index if isinstance(index, int) else at,
        id=text_of(call.get("id")) or None,
        name=text_of(function.get("name")) or None,
        arguments=arguments_text(function.get("arguments")),
        extra=freeze_object(extra) if extra else None,
    )


def _carried_fields(delta: JsonObject) -> FrozenObject:
    found = {key: delta[key] for key in CARRIED_KEYS if delta.get(key)}
    return freeze_object(found) if found else EMPTY_OBJECT


def _object(value: Json) -> FrozenObject | None:
    return freeze_object(value) if is_object(value) else None


_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "word": "stop",
    "length": "length",
    "limit": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
"""The servers' words for why a reply ended."""


class TextReader(ReaderState):
    """Base of the readers: a subclass reads one body or event."""

    @abstractmethod
    def piece(self, event: JsonObject) -> ReplyPiece:
        """Translate a body or an event that reports no error."""

    @abstractmethod
    def speaks(self, event: JsonObject) -> bool:
        """Return True if a body or an event contains a text, even an empty one."""

    def read(self, event: JsonObject) -> ReplyPiece:
        """Translate a body or an event of a stream."""
        self.last = event
        if reports_error(event):
            raise provider_error(event)
        piece = self.piece(event)
        self.said = self.said or piece.spoken or self.speaks(event)
        self.ended = self.ended or piece.finish_reason is not None
        return piece


class LlamaCppReader(TextReader):
    """llama.cpp's ``/completion``."""

    def piece(self, event: JsonObject) -> ReplyPiece:
        """The text is ``content``; ``stop`` marks the end."""
        reason: FinishReason | None = None
        if event.get("stop") is True:
            # Older servers have a switch for each reason instead of its name.
            limited = event.get("stop_type") == "limit" or event.get("stopped_limit") is True
            reason = "length" if limited else "stop"
        timings = event.get("timings")
        # `tokens_cached` cannot be used: servers include the reply in it.
        cached = number_of(timings.get("cache_n")) if is_object(timings) else 0
        return ReplyPiece(
            text=text_of(event.get("content")),
            reasoning=text_of(event.get("reasoning_content")),
            finish_reason=reason,
            usage=_token_usage(event.get("tokens_evaluated"), event.get("tokens_predicted"), cached)
            if reason
            else None,
            model=text_of(event.get("model")),
            raw=freeze_object(event) if reason else None,
        )

    def speaks(self, event: JsonObject) -> bool:
        """Return True if the text field exists."""
        return isinstance(event.get("content"), str)


class OllamaReader(TextReader):
    """Ollama's ``/api/generate``."""

    def piece(self, event: JsonObject) -> ReplyPiece:
        """The text is ``response``; ``done`` marks the end."""
        done = event.get("done") is True
        return ReplyPiece(
            text=text_of(event.get("response")),
            reasoning=text_of(event.get("thinking")),
            finish_reason=(finish_reason(event.get("done_reason")) or "stop") if done else None,
            usage=_token_usage(event.get("prompt_eval_count"), event.get("eval_count")) if done else None,
            model=text_of(event.get("model")),
            raw=freeze_object(event) if done else None,
        )

    def speaks(self, event: JsonObject) -> bool:
        """Return True if the text field exists."""
        return isinstance(event.get("response"), str)


class KoboldReader(TextReader):
    """KoboldAI's own protocol, which KoboldCpp speaks, too."""

    def piece(self, event: JsonObject) -> ReplyPiece:
        """Streams have a ``token``, whole replies ``results``."""
        result = _first(event.get("results"))
        reason = finish_reason(event.get("finish_reason")) or finish_reason(result.get("finish_reason"))
        return ReplyPiece(
            text=text_of(event.get("token")) or text_of(result.get("text")),
            finish_reason=reason,
            usage=_token_usage(result.get("prompt_tokens"), result.get("completion_tokens")),
            raw=freeze_object(event) if reason or result else None,
        )

    def speaks(self, event: JsonObject) -> bool:
        """Return True if the text field exists."""
        return isinstance(event.get("token"), str) or isinstance(_first(event.get("results")).get("text"), str)


class NovelAIReader(TextReader):
    """NovelAI's text API. It does not say why a reply ended."""

    def piece(self, event: JsonObject) -> ReplyPiece:
        """Streams have a ``token``, whole replies an ``output``."""
        ended = event.get("final") is True or "output" in event
        return ReplyPiece(
            text=text_of(event.get("token")) or text_of(event.get("output")),
            finish_reason="unknown" if ended else None,
            raw=freeze_object(event) if ended else None,
        )

    def speaks(self, event: JsonObject) -> bool:
        """Return True if the text field exists."""
        return isinstance(event.get("token"), str) or isinstance(event.get("output"), str)


def finish_reason(value: Json) -> FinishReason | None:
    """Translate a server's word for why a reply ended; some write the text ``null`` until it ends."""
    return _FINISH_REASONS.get(value, "unknown") if isinstance(value, str) and value not in ("", "null") else None


def _token_usage(sent: Json, received: Json, cached: int = 0) -> Usage | None:
    if not isinstance(sent, int) and not isinstance(received, int):
        return None
    counts = number_of(sent), number_of(received)
    return Usage(input_tokens=counts[0], output_tokens=counts[1], cached_tokens=cached, reported=True)


def _first(items: Json) -> JsonObject:
    return items[0] if is_list(items) and items and is_object(items[0]) else {}
