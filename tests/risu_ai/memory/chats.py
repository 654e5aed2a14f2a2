"""Chats and models for tests of memory: a text costs its length, a message three tokens more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tavernkit._values import FrozenJson, JsonObject
from tavernkit.risu_ai._budget import MessageCounter
from tavernkit.risu_ai._chat.prompt_message import NEW_CHAT_MEMO, PromptMessage
from tavernkit.risu_ai._memory import Embed, MemoryInput, MemoryModels, MemoryOutcome, remember
from tavernkit.testing._risu_ai import letter_counts


class Characters:
    def estimate(self, text: str, model_hint: str | None = None) -> int:
        return len(text)


COUNTER = MessageCounter("test", Characters())


def start() -> PromptMessage:
    return PromptMessage(role="system", content="[Start a new chat]", memo=NEW_CHAT_MEMO)


def greeting(text: str = "Hello") -> PromptMessage:
    return PromptMessage(role="assistant", content=text)


def spoken(*texts: str) -> list[PromptMessage]:
    """Messages m0, m1, … of user and character in turn."""
    return [
        PromptMessage(role="assistant" if n % 2 else "user", content=text, memo=f"m{n}") for n, text in enumerate(texts)
    ]


class Summariser:
    """Answers in turn, and keeps the text of every request."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers or ("S",)
        self.requests: list[Sequence[JsonObject]] = []

    def __call__(self, messages: Sequence[JsonObject]) -> str:
        self.requests.append(messages)
        return self.answers[(len(self.requests) - 1) % len(self.answers)]

    @property
    def texts(self) -> list[object]:
        return [request[0]["content"] for request in self.requests]


def run_memory(
    items: Sequence[PromptMessage],
    settings: Mapping[str, FrozenJson],
    chat: Mapping[str, FrozenJson] | None = None,
    *,
    max_context: int,
    summarise: Callable[[Sequence[JsonObject]], str] | None = None,
    rest: int = 0,
    reply: int = 0,
    random: Callable[[], float] = lambda: 0.5,
    expand: Callable[[str], str] = str,
    embed: Embed = letter_counts,
) -> MemoryOutcome:
    """Run memory; ``rest`` is what the prompt needs beside the chat, ``reply`` what is kept free for the reply."""
    return remember(
        MemoryInput(
            items=items,
            total=COUNTER.messages(items) + rest + reply,
            max_context=max_context,
            max_response=reply,
            counter=COUNTER,
            settings=settings,
            chat=chat or {},
            models=MemoryModels(summarize=summarise or Summariser(), embed=embed, default_prompt="Sum up."),
            user_name="Ann",
            character_name="Bel",
            random=random,
            expand=expand,
        )
    )
