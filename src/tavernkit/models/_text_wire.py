"""Reads replies and streams of text-completion servers that have their own protocols."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

from tavernkit._values import Json, JsonObject, freeze_object, is_list, is_object
from tavernkit.models._readers import ReaderState, number_of, provider_error, reports_error, text_of
from tavernkit.models._reply import FinishReason, ReplyPiece, Usage

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
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
            usage=_usage(event.get("tokens_evaluated"), event.get("tokens_predicted"), cached) if reason else None,
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
            usage=_usage(event.get("prompt_eval_count"), event.get("eval_count")) if done else None,
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
            usage=_usage(result.get("prompt_tokens"), result.get("completion_tokens")),
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
    return FINISH_REASONS.get(value, "unknown") if isinstance(value, str) and value not in ("", "null") else None


def _usage(sent: Json, received: Json, cached: int = 0) -> Usage | None:
    if not isinstance(sent, int) and not isinstance(received, int):
        return None
    counts = number_of(sent), number_of(received)
    return Usage(input_tokens=counts[0], output_tokens=counts[1], cached_tokens=cached, reported=True)


def _first(items: Json) -> JsonObject:
    return items[0] if is_list(items) and items and is_object(items[0]) else {}
