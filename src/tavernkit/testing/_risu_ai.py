"""For tests of RisuAI's triggers and memory: a scripted host that records every call, and models without a network."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from tavernkit._values import Json, JsonObject
from tavernkit.errors import ConfigError
from tavernkit.risu_ai._memory.contract import MemoryModels
from tavernkit.risu_ai._triggers.host import AlertKind, FetchReply, InlayData, LLMReply

DEFAULT_ANSWERS: Mapping[str, object] = {
    "ask": "",
    "select": "0",
    "confirm": True,
    "llm": LLMReply("success", "LLM-REPLY"),
    "image": "inlay-id-1",
    "inlay": None,
    "asset_inlay": "inlay-id-1",
    "similarity": None,
    "fetch": FetchReply(200, "BODY"),
}
"""The answers when the script has none left for a method; ``similarity`` reverses the texts."""


class ScriptedTriggerHost:
    """Answers each method from its own queue; ``calls`` has all calls in order as tuples of method and arguments.

    An answer that is an exception is raised.

    >>> host = ScriptedTriggerHost(ask=["Zoe"])
    >>> host.ask("Your name?")
    'Zoe'
    >>> host.calls
    [('ask', 'Your name?')]

    Raises:
        ConfigError: An answer is given for a question that no trigger asks.
    """

    def __init__(self, **answers: Iterable[object]) -> None:
        unknown = answers.keys() - DEFAULT_ANSWERS.keys()
        if unknown:
            raise ConfigError(f"a trigger host answers {', '.join(DEFAULT_ANSWERS)}; not {', '.join(sorted(unknown))}")
        self._answers = {kind: list(queue) for kind, queue in answers.items()}
        self.calls: list[tuple[object, ...]] = []

    def log(self, value: Json) -> None:
        """Record the call."""
        self.calls.append(("log", value))

    def alert(self, kind: AlertKind, text: str) -> None:
        """Record the call."""
        self.calls.append(("alert", kind, text))

    def ask(self, text: str) -> str:
        """Answer from the script."""
        return cast("str", self._answer("ask", text))

    def select(self, options: Sequence[str], title: str | None) -> str:
        """Answer from the script."""
        return cast("str", self._answer("select", list(options), title))

    def confirm(self, text: str) -> bool:
        """Answer from the script."""
        return cast("bool", self._answer("confirm", text))

    def llm(self, messages: Sequence[JsonObject], model: str) -> LLMReply:
        """Answer from the script."""
        return cast("LLMReply", self._answer("llm", list(messages), model))

    def image(self, prompt: str, negative: str, character: str) -> str | None:
        """Answer from the script."""
        return cast("str | None", self._answer("image", prompt, negative, character))

    def inlay(self, name: str) -> InlayData | None:
        """Answer from the script."""
        return cast("InlayData | None", self._answer("inlay", name))

    def asset_inlay(self, path: str) -> str | None:
        """Answer from the script."""
        return cast("str | None", self._answer("asset_inlay", path))

    def similarity(self, query: str, texts: Sequence[str]) -> Sequence[str]:
        """Answer from the script."""
        answer = self._answer("similarity", query, list(texts))
        return list(reversed(texts)) if answer is None else cast("Sequence[str]", answer)

    def fetch(self, url: str) -> FetchReply:
        """Answer from the script."""
        return cast("FetchReply", self._answer("fetch", url))

    def sleep(self, milliseconds: float) -> None:
        """Record the call and return at once."""
        self.calls.append(("sleep", milliseconds))

    def speak(self, text: str) -> None:
        """Record the call."""
        self.calls.append(("speak", text))

    def send_chat(self) -> None:
        """Record the call."""
        self.calls.append(("send_chat",))

    def _answer(self, kind: str, *arguments: object) -> object:
        self.calls.append((kind, *arguments))
        queue = self._answers.get(kind)
        answer = queue.pop(0) if queue else DEFAULT_ANSWERS[kind]
        if isinstance(answer, BaseException):
            raise answer
        return answer


SUMMARY_WORDS = 4


def first_words(messages: Sequence[JsonObject]) -> str:
    """Summarise a request by the first words of its first message."""
    text = str(messages[0].get("content", "")) if messages else ""
    return "Summary: " + " ".join(text.split()[:SUMMARY_WORDS])


def letter_counts(texts: Sequence[str]) -> list[list[float]]:
    """Embed texts by how often they have each letter."""
    return [[float(text.lower().count(letter)) for letter in string.ascii_lowercase] for text in texts]


def memory_models() -> MemoryModels:
    """Make a summariser and an embedder for tests."""
    return MemoryModels(summarize=first_words, embed=letter_counts)
