"""Worlds, hosts and results as the trigger vectors write them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tavernkit._text.js_regex import JSRegexSyntaxError
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._files.chat_file import chat_json
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuPersona, RisuSettings
from tavernkit.risu_ai._triggers import FetchReply, InlayData, LLMReply, StoredState, TriggerResult
from tavernkit.risu_ai.errors import TriggerError
from tavernkit.stores._variables import InMemoryVariablesStore
from tavernkit.testing._risu_ai import ScriptedTriggerHost

CHARACTER = {
    "name": "Mira",
    "firstMessage": "Hello there.",
    "desc": "A quiet librarian.",
    "chaId": "char-0",
    "replaceGlobalNote": "",
    "globalLore": [],
    "alternateGreetings": [],
    "backgroundHTML": "",
}
CHAT = {"message": [], "note": "", "localLore": [], "fmIndex": -1}
DATABASE = {
    "username": "Alex",
    "personas": [{"name": "Alex", "personaPrompt": "", "icon": "", "largePortrait": False, "note": ""}],
    "selectedPersona": 0,
    "personaPrompt": "",
    "globalChatVariables": {},
    "templateDefaultVariables": "",
    "modules": [],
    "enabledModules": [],
    "moduleIntergration": "",
    "maxContext": 4000,
    "aiModel": "gpt4o",
}
PICTURE = "data:image/png;base64,AAAA"
NOW = "2025-03-04T05:06:07Z"
_KINDS = {"alertInput": "ask", "alertSelect": "select", "alertConfirm": "confirm"}


class World:
    """The state of one vector, kept from step to step."""

    def __init__(self, given: Any) -> None:
        self.character = {**CHARACTER, **given.get("character", {})}
        self.chat = {**CHAT, **given.get("chat", {})}
        self.db = {**DATABASE, **given.get("db", {})}
        self.state = {name.removeprefix("$"): value for name, value in self.chat.pop("scriptstate", {}).items()}
        randoms = itertools.cycle(given.get("random", [0.5]))
        now = datetime.fromisoformat(given.get("now", NOW)).astimezone(UTC)
        self.context = CBSContext(
            char=RisuCharacter.from_json(self.character),
            chat=RisuChat.from_json(self.chat),
            user=self.db["username"],
            personas=tuple(RisuPersona.from_json(each) for each in self.db["personas"]),
            settings=RisuSettings.from_json(self.db),
            variables=InMemoryVariablesStore({"local": self.state, "global": self.db["globalChatVariables"]}),
            random=lambda: next(randoms),
            clock=lambda: now,
        )
        self.host = host_of(given.get("answers", {}))

    @property
    def options(self) -> Any:
        return {"host": self.host, "selected_persona": self.db["selectedPersona"]}

    def keep(self, stored: StoredState) -> None:
        self.context = stored.context

    def variables(self, changes: Mapping[str, Any], removed: frozenset[str]) -> dict[str, Any]:
        kept = {name: value for name, value in {**self.state, **changes}.items() if name not in removed}
        return {f"${name}": value for name, value in kept.items()}

    def stored(self, stored: StoredState) -> dict[str, Any]:
        """The application's state; fields that did not change may be there as well."""
        context = stored.context
        character = context.character
        assert character is not None
        raw = character.raw
        found: dict[str, Any] = {
            "message": [message.to_json() for message in context.chat.messages],
            "scriptstate": self.variables(stored.variables, stored.removed),
            "desc": raw.get("desc"),
            "name": raw.get("name"),
            "firstMessage": raw.get("firstMessage"),
            "replaceGlobalNote": raw.get("replaceGlobalNote"),
            "backgroundHTML": raw.get("backgroundHTML"),
            "globalLore": raw.get("globalLore"),
            "note": context.chat.note,
            "localLore": context.chat.local_lore,
            "personaPrompt": context.settings.persona_prompt,
            "personas": [
                {**given, "personaPrompt": persona.prompt}
                for given, persona in zip(self.db["personas"], context.personas, strict=True)
            ],
        }
        return plain(found)

    def chat_json(self, chat: RisuChat, changes: Mapping[str, Any], removed: frozenset[str]) -> dict[str, Any]:
        written = plain(chat_json(chat))
        kept = {key: written[key] for key in ("message", "note", "localLore") if key in written}
        return {**kept, "scriptstate": self.variables(changes, removed)}

    def trigger(self, result: TriggerResult) -> dict[str, Any]:
        actual: dict[str, Any] = {"stored": self.stored(result.stored), **self.effects(result)}
        if result.trigger_id is not None:
            actual["currentTriggerId"] = result.trigger_id
        if result.error is not None:
            return {**actual, "error": error_class(result.error)}
        if result.outcome != "ok":
            return {**actual, "returned": None if result.outcome == "none" else "undefined"}
        returned: dict[str, Any] = {
            "additionalSysPrompt": {
                "start": result.additions.start,
                "historyend": result.additions.historyend,
                "promptend": result.additions.promptend,
                **result.additions.elsewhere,
            },
            "tokens": result.tokens,
            "stopSending": result.stop_sending,
            "sendAIprompt": result.send_ai_prompt,
        }
        if result.display_data is not None:
            returned["displayData"] = result.display_data
        if result.temp_variables is not None:
            returned["tempVars"] = result.temp_variables
        chat = self.chat_json(result.chat, result.variables, result.removed_variables)
        return {**actual, "returned": returned, "chat": chat}

    def effects(self, result: Any) -> dict[str, Any]:
        calls = [call for made in self.host.calls for call in call_json(made)]
        self.host.calls.clear()
        errors = sum(event.kind == "lua_error" for event in result.events)
        return {
            "calls": calls,
            "reloadGUI": result.reloads.screen,
            "reloadChat": dict(result.reloads.messages),
            "luaError": errors > 0,
        }


class VectorHost(ScriptedTriggerHost):
    """Makes pictures as the recording stubs did: from a source, where an empty one is a failure."""

    def image(self, prompt: str, negative: str, character: str) -> str | None:
        source = self.pictures.pop(0) if self.pictures else PICTURE
        self.calls.append(("image", prompt, negative, character, source))
        if not source:
            return None
        return self.inlay_ids.pop(0) if self.inlay_ids else "inlay-id-1"

    pictures: list[str]
    inlay_ids: list[str]


def host_of(answers: Mapping[str, Any]) -> VectorHost:
    queues: dict[str, list[Any]] = {}
    for kind, queue in answers.items():
        match kind:
            case "llm":
                queues[kind] = [LLMReply(each["type"], each["result"]) for each in queue]
            case "fetch":
                queues[kind] = [OSError(each) if isinstance(each, str) else FetchReply(**each) for each in queue]
            case "image" | "inlay":
                pass
            case "getInlay":
                queues["inlay"] = [inlay_of(each) for each in queue]
            case _:
                queues[_KINDS.get(kind, kind)] = list(queue)
    queues["inlay"] = [*queues.get("inlay", ()), *[inlay_of({})] * 10]
    host = VectorHost(**queues)
    host.pictures = list(answers.get("image", ()))
    host.inlay_ids = list(answers.get("inlay", ()))
    return host


def inlay_of(stored: Mapping[str, Any] | None) -> InlayData | None:
    if stored is None:
        return None
    kind, data = stored.get("type", "image"), stored.get("data", "BASE64")
    return InlayData(kind, data, stored.get("width", 1), stored.get("height", 2))


def error_class(error: TriggerError) -> str:
    """The JavaScript error class; patterns that are wrong have one of our own."""
    cause = error.__cause__
    return "SyntaxError" if isinstance(cause, JSRegexSyntaxError) else getattr(cause, "kind", "Error")


def call_json(made: tuple[Any, ...]) -> list[list[Any]]:
    """A call of the host as the recording stubs wrote it down."""
    kind, *arguments = made
    match kind:
        case "alert":
            name = {"normal": "alertNormal", "error": "alertError", "markdown": "alertMd"}[arguments[0]]
            return [[name, "(markdown help)" if name == "alertMd" else arguments[1]]]
        case "ask":
            return [["alertInput", *arguments]]
        case "select":
            return [["alertSelect", *(each for each in arguments if each is not None)]]
        case "confirm":
            return [["alertConfirm", *arguments]]
        case "llm":
            request = {"formated": arguments[0], "bias": {}, "useStreaming": False, "noMultiGen": True}
            return [["llm", request, arguments[1]]]
        case "similarity":
            return [["similarityAdd", arguments[1]], ["similaritySearch", arguments[0]]]
        case "fetch":
            return [["fetch", arguments[0], {"method": "GET"}]]
        case "image":
            prompt, negative, character, source = arguments
            inlay = [["inlay", source]] if source else []
            return [["image", prompt, negative, "inlay", character], *inlay]
        case "inlay":
            return [["getInlay", *arguments]]
        case "sleep":
            return [["sleep", "NaN" if math.isnan(arguments[0]) else arguments[0]]]
        case "send_chat":
            return [["sendChat", -1]]
        case "speak":
            return [["tts", *arguments]]
        case _:
            return [[kind, *arguments]]


def plain(value: Any) -> Any:
    """Frozen JSON as the vectors write it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
