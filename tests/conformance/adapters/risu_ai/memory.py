"""Builds of chats with long-term memory; the summariser and the embeddings are those of the recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tavernkit._values import JsonObject, thaw_object
from tavernkit.errors import MaxTokensExceededError, PipelineError
from tavernkit.risu_ai._builder import Builder
from tavernkit.risu_ai._memory import MemoryModels
from tavernkit.risu_ai._plan import RisuPlan
from tavernkit.risu_ai.errors import MemoryFailedError
from tests.conformance.adapters.risu_ai.build import inputs, masked, memory_failure, result, too_small, when
from tests.conformance.runner import Case

STORED = ("supaMemoryData", "hypaV2Data", "hypaV3Data", "lastMemory")
DEFAULT_PROMPT = "<<RISU_DEFAULT_SUMMARY_PROMPT>>"


class Summariser:
    """Answers as the recording did, and keeps what was asked."""

    def __init__(self, answers: list[str]) -> None:
        self.requests: list[object] = []
        self._answers = answers

    def __call__(self, messages: Sequence[JsonObject]) -> str:
        answer = self._answers[len(self.requests) % len(self._answers)]
        self.requests.append([*messages])
        return answer


def letters(texts: Sequence[str]) -> list[list[float]]:
    return [[float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


def run(case: Case) -> object:
    given: Any = case.input
    summariser = Summariser(given.get("summaries") or [""])
    models = MemoryModels(summarize=summariser, embed=letters, default_prompt=DEFAULT_PROMPT)
    chat = given["characters"][0]["chats"][0]
    before = {key: chat[key] for key in STORED if key in chat}
    try:
        plan = Builder().build(**inputs(given), memory=models)
    except MaxTokensExceededError as error:
        if isinstance(error.partial, RisuPlan):
            return outcome(error.partial, summariser, before)
        failure: object = {**too_small(error), **when(error)}
        return {"ok": False, "error": failure, "summarizer_requests": summariser.requests, "stored": before}
    except PipelineError as error:
        cause = error.__cause__
        if not isinstance(cause, MemoryFailedError):
            raise
        found = memory_failure(cause)
        return {**found, "summarizer_requests": summariser.requests, "stored": {**before, **cause.stored}}
    return outcome(plan, summariser, before)


def outcome(plan: RisuPlan, summariser: Summariser, before: dict[str, Any]) -> dict[str, object]:
    data = {key: value for key, value in thaw_object(plan.memory_data).items() if value is not None}
    return {
        **result(plan),
        "memos": [masked(message.memo) for message in plan.prompt_messages()],
        "summarizer_requests": summariser.requests,
        "stored": {**before, **data},
    }
