from __future__ import annotations

from typing import Any

from tavernkit._text.js_regex import JSRegexSyntaxError
from tavernkit.risu_ai._regex_scripts import (
    RegexScriptRunner,
    hide_styles,
    restore_styles,
    run_translation_scripts,
    scripts_of,
    translation_scripts_of,
)
from tests.conformance.adapters.risu_ai.risu_inputs import context_of, database
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    call = given["call"]
    context = context_of(given)
    if call["mode"] == "edittrans":
        return translation(given, call)
    conditions = call.get("cbsConditions", {})
    context = context.replace(first_message=conditions.get("firstmsg", False))
    result = RegexScriptRunner().run(
        call["data"],
        call["mode"],
        scripts_of(context, database(given).get("presetRegex", [])),
        context,
        index=call["chatID"],
        chat_role=conditions.get("chatRole", ""),
    )
    found: dict[str, object] = {"data": result.text, "emoChanged": result.emotion_changed}
    if result.emotions:
        found["emotions"] = list(result.emotions)
    if result.stored:
        texts = [message.data for message in context.chat.messages]
        found["stored_messages"] = [result.stored.get(index, text) for index, text in enumerate(texts)]
    return found


def translation(given: Any, call: Any) -> object:
    context = context_of(given)
    _, styles = hide_styles(call["data"])
    text = restore_styles(call["translation"], styles)
    if call.get("no_character"):
        context = context.replace(char=None)
    try:
        return {"data": run_translation_scripts(text, translation_scripts_of(context))}
    except JSRegexSyntaxError:
        return {"error": "SyntaxError"}
