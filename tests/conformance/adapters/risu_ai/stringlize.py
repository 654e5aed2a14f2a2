"""Prompts as one text, and cutting what came back."""

from __future__ import annotations

from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._requests.text_completion import OobaFormat, chat_text, cut_reply, ooba_text, stop_texts
from tests.conformance.runner import Case

USER = "Ann"


def run(case: Case) -> object:
    return {"result": call(case)}


def call(case: Case) -> object:
    name, args = case.input["fn"], case.input["args"]
    if name == "unstringlizeChat":
        return cut_reply(args[0], read(args[1]), args[2], user_name=USER)
    messages, character = read(args[0]), args[1]
    if name == "stringlizeChat":
        return chat_text(messages, character, continued=args[2])
    if name == "stringlizeChatOba":
        form = OobaFormat.from_json(case.input["db"]["ooba"]["formating"])
        return ooba_text(messages, character, user_name=USER, format=form, suggesting=args[2], continued=args[3])
    stops = stop_texts(messages, character, user_name=USER)
    return {"chunks": list(stops.tags), "extChunk": list(stops.all)}


def read(messages: list[dict[str, object]]) -> list[PromptMessage]:
    return [PromptMessage.from_json(message) for message in messages]
