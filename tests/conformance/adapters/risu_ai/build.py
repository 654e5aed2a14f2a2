"""End-to-end builds and sends."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import cycle
from typing import Any

from tavernkit._text.js_values import utf16_length
from tavernkit.errors import MaxTokensExceededError, PipelineError
from tavernkit.risu_ai._builder import Builder
from tavernkit.risu_ai._files.chat_file import chat_json, chat_variables
from tavernkit.risu_ai._files.settings import BuiltInTexts, Settings
from tavernkit.risu_ai._memory import MemoryModels
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat
from tavernkit.risu_ai._plan import RisuPlan
from tavernkit.risu_ai._sending.exchange import ModelRequest, RequestFailedError, SendError, drive
from tavernkit.risu_ai._sending.send import Send
from tavernkit.risu_ai.errors import MemoryFailedError, PromptTemplateError, RequestFormatError, TriggerError
from tavernkit.stores._variables import InMemoryVariablesStore, VariableChanges
from tests.conformance.adapters.risu_ai.trigger_inputs import error_class
from tests.conformance.runner import VECTORS, Case

TEXTS = BuiltInTexts(
    chain_of_thought="<<RISU_BUILTIN_COT_INSTRUCTION>>", asset_command="<<RISU_BUILTIN_ASSET_COMMAND>>"
)


UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MODELS = MemoryModels(
    summarize=lambda messages: f"{len(messages)} messages", embed=lambda texts: [[1.0] for _ in texts]
)


class Characters:
    """Counts UTF-16 units, as the recording did."""

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        return utf16_length(text)


@cache
def defaults() -> Any:
    return json.loads((VECTORS / "risu_ai" / "risu_build_defaults.json").read_text("utf-8"))


def run(case: Case) -> object:
    if case.input.get("real_send"):
        return send(case)
    try:
        plan = Builder().build(**inputs(case.input, strict="exception" in case.expected), memory=MODELS)
    except MaxTokensExceededError as error:
        if isinstance(error.partial, RisuPlan):
            return result(error.partial)
        return {"ok": False, "error": {**too_small(error), **when(error)}}
    except PipelineError as error:
        cause = error.__cause__
        if isinstance(cause, MemoryFailedError):
            return memory_failure(cause)
        return {"ok": False, "exception": thrown(error)}
    found = result(plan)
    if "token_table" in case.expected and plan.count_tokens is not None:
        found["token_table"] = {text: plan.count_tokens(text) for text in case.expected["token_table"]}
    return found


def too_small(error: MaxTokensExceededError) -> dict[str, object]:
    return {"code": "context_too_small", "required_tokens": error.estimated_tokens, "max_context": error.max_tokens}


def thrown(error: BaseException) -> str:
    """JavaScript's class of what we raise: a trigger knows its own, else a bad pattern or something that is missing."""
    trigger = error if isinstance(error, TriggerError) else error.__cause__
    if isinstance(trigger, TriggerError):
        return error_class(trigger)
    return "SyntaxError" if "Invalid regular expression" in str(error) else "TypeError"


def memory_failure(error: MemoryFailedError) -> dict[str, object]:
    """What memory gives up on; where RisuAI throws an error of its own instead, it is an exception."""
    if error.code == "memory_too_large":
        return {"ok": False, "exception": "Error"}
    return {"ok": False, "error": {"code": error.code, **error.details}}


def when(error: MaxTokensExceededError) -> dict[str, object]:
    return {"when": "recheck"} if error.step == "plan_assembly" else {}


class Replies:
    """Answers as the recording did, and keeps what was asked."""

    def __init__(self, replies: list[Any]) -> None:
        self.requests: list[object] = []
        self._replies = replies

    def __call__(self, request: ModelRequest) -> str | list[str]:
        reply = self._replies[len(self.requests) % len(self._replies)]
        kept = [{key: each[key] for key in ("role", "content", "name") if key in each} for each in request.messages]
        self.requests.append({"messages": kept})
        if isinstance(reply, dict):
            raise RequestFailedError(reply["error"])
        return reply


def send(case: Case, on_overflow: str = "error") -> object:
    given = {**inputs(case.input, strict="exception" in case.expected), "on_overflow": on_overflow}
    model = Replies(case.input.get("replies", ["OK."]))
    found: dict[str, object] = {"requests": model.requests}
    builder = Builder()
    sending = Send(builder, builder.make_context(**given))
    try:
        sent = drive(sending.run(), model)
    except (PromptTemplateError, RequestFormatError, TriggerError, PipelineError) as error:
        found |= {"ok": False, "exception": thrown(error)}
    else:
        if sent.error is not None and lost_user_message(sent.error) and on_overflow == "error":
            return send(case, on_overflow="return")
        found["ok"] = sent.ok
        if not sent.ok:
            found["error"] = sent.error and failure(sent.error)
    return {**found, "stored": stored(sending.chat, sending.variables.changes(), given)}


def lost_user_message(error: SendError) -> bool:
    """Whether RisuAI would have sent this prompt, without the user's latest message."""
    return isinstance(error.cause, MaxTokensExceededError) and error.cause.partial is not None


def failure(error: SendError) -> dict[str, object]:
    if isinstance(error.cause, MaxTokensExceededError):
        return {**too_small(error.cause), **when(error.cause)}
    details = error.cause.details if isinstance(error.cause, MemoryFailedError) else {}
    return {"code": error.code, "detail": error.detail, **details}


def stored(chat: RisuChat, changes: VariableChanges, given: dict[str, Any]) -> dict[str, object]:
    written = chat_json(chat)
    messages = [
        {key: masked(message[key]) for key in ("role", "data", "saying", "disabled") if key in message}
        for message in written["message"]  # type: ignore[union-attr]
    ]
    changes.apply(given["variables"])
    state = given["variables"].to_dict().get("local", {})
    found: dict[str, object] = {
        "message": messages,
        "scriptstate": {f"${name}": value for name, value in state.items()},
    }
    if chat.note:
        found["note"] = chat.note
    return found


def inputs(given: Any, *, strict: bool = False) -> dict[str, Any]:
    base = defaults()
    db = {**base["risu_defaults"], **base["db"], **given["db"]}
    characters = [character(each, index) for index, each in enumerate(given["characters"])]
    selected = given["characters"][0]
    chat = {**base["chat"], **(selected["chats"][0] if selected.get("chats") else {})}
    call = given.get("call", {})
    owner = characters[0]
    dice = cycle(given.get("random", [0.5]))
    history = RisuChat.from_json(chat)
    local, shared = chat_variables(history), db["globalChatVariables"]
    built: dict[str, Any] = {
        "variables": InMemoryVariablesStore({"local": local, "global": shared}),
        "character": owner,
        "members": characters[1:],
        "settings": Settings.from_json(db, warn=lambda _: None).replace(texts=TEXTS),
        "history": history,
        "generation_type": "continue" if call.get("continue") else "normal",
        "random": lambda: next(dice),
        "warn": None,
        "strict": strict,
    }
    if given.get("tokenizer", "chars") == "chars":
        built["token_estimator"] = Characters()
    if owner.is_group and "chatProcessIndex" in call:
        built["speaker"] = selected["characters"][call["chatProcessIndex"]]
    return built


def character(raw: Any, index: int) -> RisuCharacter:
    return RisuCharacter.from_json({**defaults()["character"], "chaId": f"char-{index}", **raw})


def masked(value: object) -> object:
    """The recording masks ids that were made up."""
    return "<<uuid>>" if isinstance(value, str) and UUID.fullmatch(value) else value


def result(plan: RisuPlan) -> dict[str, object]:
    if plan.stopped:
        return {"ok": False, "error": None}
    messages, meta = [], []
    for message in plan.prompt_messages():
        written = message.to_json()
        messages.append({key: written[key] for key in ("role", "content", "name") if key in written})
        meta.append({key: masked(value) for key, value in written.items() if key not in {"role", "content", "name"}})
    return {"ok": True, "messages": messages, "meta": meta, "last_memory": masked(plan.last_memory)}
