"""Whole conversations: every operation of a user, what it asked of the model, and what it left behind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

from tavernkit._turns import OnPiece, ToolOutcome
from tavernkit._values import thaw
from tavernkit.budget._file_tokenizer import CLAUDE_FILE, installed_file
from tavernkit.dialects._attachments import Attachment
from tavernkit.errors import MaxTokensExceededError, PipelineError, TavernKitError
from tavernkit.models._reply import Reply, ReplyPiece, ToolCall
from tavernkit.models.errors import HTTPError
from tavernkit.prompt._plan import Plan
from tavernkit.risu_ai._chat.prompt_message import Inlay
from tavernkit.risu_ai._conversation import Chat
from tavernkit.risu_ai._files.settings import BuiltInTexts, Settings
from tavernkit.risu_ai._memory import MemoryModels
from tavernkit.risu_ai._objects import RisuCharacter
from tavernkit.risu_ai._plan import RisuPlan
from tavernkit.risu_ai._sending.exchange import RequestStoppedError
from tavernkit.risu_ai._triggers import RefusingHost
from tavernkit.risu_ai.errors import PromptTemplateError, TriggerError
from tests.conformance.adapters.risu_ai.build import character, defaults, thrown
from tests.conformance.runner import Case, UnavailableError

NOW = 1709787845678
URL = "https://api.openai.com/v1/chat/completions"
KEYS: dict[str, str] = dict.fromkeys(
    ("openai", "anthropic", "google", "mistral", "cohere", "openrouter", "proxy"), "KEY"
)
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TEXTS = BuiltInTexts(
    chain_of_thought="<<RISU_BUILTIN_COT_INSTRUCTION>>", asset_command="<<RISU_BUILTIN_ASSET_COMMAND>>"
)
DATABASE_KEYS = (
    "username",
    "personaPrompt",
    "globalChatVariables",
    "selectedPersona",
    "enabledModules",
    "mainPrompt",
    "jailbreakToggle",
)
HIDDEN = ("chatId", "time", "generationInfo", "promptInfo")
MEMORY = ("supaMemoryData", "hypaV2Data", "hypaV3Data", "lastMemory")
ABORTED = "The user aborted a request."


def run(case: Case) -> object:
    return asyncio.run(Conversation(case.input).run())


def letters(texts: Sequence[str]) -> list[list[float]]:
    return [[float(text.lower().count(chr(97 + index))) for index in range(26)] for text in texts]


class Dialogs(RefusingHost):
    """Answers triggers as the recording did, and keeps what was shown."""

    def __init__(self) -> None:
        self.alerts: list[list[str]] = []
        self.answers: list[str] = []

    def alert(self, kind: str, text: str) -> None:
        self.alerts.append([kind, "<<RISU_COMMAND_HELP>>" if kind == "markdown" else text])

    def ask(self, text: str) -> str:
        self.alerts.append(["input", text])
        return self.answers.pop(0) if self.answers else ""

    def select(self, options: Sequence[str], title: str | None) -> str:
        self.alerts.append(["select", "||".join(options)])
        return self.answers.pop(0) if self.answers else "0"

    def confirm(self, text: str) -> bool:
        self.alerts.append(["confirm", text])
        return (self.answers.pop(0) if self.answers else "yes") == "yes"

    def speak(self, text: str) -> None:
        pass


class Network:
    """The host: answers as the recording did, and keeps what was asked."""

    def __init__(self, chat: Callable[[], Chat]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.stopped_streams = 0
        self.operation: dict[str, Any] = {}
        self._chat = chat

    async def ask(self, plan: Plan, *, on_piece: OnPiece | None = None) -> Reply:
        assert isinstance(plan, RisuPlan)
        replies = self.operation.get("replies", ["OK."])
        reply = replies[len(self.requests) % len(replies)]
        stream = on_piece is not None and self._chat().settings.use_streaming
        request = plan.reference_request(keys=KEYS, stream=stream, warn=lambda _: None)
        fields = {key: value for key, value in request.body.items() if key != "messages"}
        self.requests.append({"messages": request.body.get("messages"), "fields": fields})
        if request.url != URL:
            self.requests[-1]["url"] = request.url
        if isinstance(reply, dict):
            if "error" in reply:
                raw = f'{{"error":{{"message":"{reply["error"]}"}}}}'
                raise HTTPError(reply["error"], status=400, raw_body=raw)
            if "abort" in reply:
                raise RequestStoppedError
            first, *others = reply["choices"]
            return Reply(text=first, alternatives=tuple(others))
        if isinstance(reply, str):
            return Reply(text=reply)
        assert on_piece is not None
        stop = self.operation.get("abort_after_chunks")
        for number, piece in enumerate(reply):
            if number == stop:
                self.stopped_streams += 1
                raise RequestStoppedError
            on_piece(ReplyPiece(text=piece))
        return Reply(text="".join(reply))

    async def checkpoint(self) -> None:
        pass

    async def call_tool(self, call: ToolCall) -> ToolOutcome:
        raise AssertionError(call)


class Conversation:
    """Drives a chat through the operations of a case."""

    def __init__(self, given: Any) -> None:
        base = defaults()
        self.database = {**base["risu_defaults"], **base["db"], **given["db"]}
        self.now = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=given.get("now", NOW))
        self.drawn = 0
        self.dialogs = Dialogs()
        self.network = Network(lambda: self.chat)
        dice = cycle(given.get("random", [0.5]))

        def random() -> float:
            self.drawn += 1
            return next(dice)

        characters = [stored_character(each, index) for index, each in enumerate(given["characters"])]
        self.ids = [each.id for each in characters]
        self.operations = given["operations"]
        self.chat = Chat(
            host=self.network,
            character=characters[0],
            members=characters[1:],
            settings=Settings.from_json(self.database, warn=lambda _: None).replace(texts=TEXTS),
            random=random,
            clock=lambda: self.now,
            trigger_host=self.dialogs,
            memory=MemoryModels(embed=letters),
            inlays={name: inlay(each) for name, each in given.get("inlays", {}).items()},
            quirks="reference",
            warn=None,
        )
        self.before = self.changes()

    async def run(self) -> object:
        steps = [await self.step(operation) for operation in self.operations]
        if self.chat.settings.preset.ai_model.startswith("claude") and installed_file(*CLAUDE_FILE) is None:
            raise UnavailableError("the vocabulary claude: inputTokens are close", {"steps": steps})
        return {"steps": steps, "final": self.final()}

    async def step(self, operation: dict[str, Any]) -> dict[str, Any]:
        self.drawn, self.network.requests, self.network.operation = 0, [], operation
        self.dialogs.alerts, self.dialogs.answers = [], [*operation.get("answers", [])]
        self.network.stopped_streams = 0
        found: dict[str, Any] = {}
        try:
            shown = await self.do(operation)
        except TavernKitError as error:
            found |= self.failed(error)
        else:
            if shown is not None:
                found["display"] = shown
        self.dialogs.alerts += [["error", ABORTED]] * 2 * self.network.stopped_streams
        return self.state(found)

    def failed(self, error: TavernKitError) -> dict[str, Any]:
        cause = error.__cause__ if isinstance(error, PipelineError) and error.__cause__ is not None else error
        if isinstance(cause, TriggerError):
            if cause.trigger_type not in ("start", "output"):
                return {"exception": thrown(error)}
            mask = "<<JS_TYPE_ERROR>>" if thrown(cause) == "TypeError" else "<<LUA_ERROR>>"
            self.dialogs.alerts.append(["error", mask])
        elif isinstance(cause, PromptTemplateError):
            self.dialogs.alerts.append(["error", "<<JS_TYPE_ERROR>>"])
        elif isinstance(cause, MaxTokensExceededError):
            self.dialogs.alerts.append(["error", f"<<RISU_CONTEXT_TOO_SMALL {cause.estimated_tokens}>>"])
        elif self.chat.error is not None:
            self.dialogs.alerts.append(["error", self.chat.error.message])
        else:
            return {"exception": thrown(error)}
        return {}

    async def do(self, operation: dict[str, Any]) -> str | None:
        chat, index = self.chat, operation.get("index", 0)
        match operation["op"]:
            case "send":
                await chat.send(operation["text"], files=operation.get("files", ()))
            case "continue":
                await chat.continue_reply(operation.get("text", ""))
            case "generate":
                await chat.generate()
            case "auto":
                while len(self.network.requests) < operation["rounds"]:
                    await chat.generate()
            case "reroll":
                await chat.swipe("right")
            case "unreroll":
                await chat.swipe("left")
            case "edit":
                chat.edit(index, operation["data"])
            case "delete":
                (chat.delete_from if operation.get("following") else chat.delete)(index)
            case "disable":
                chat.disable(index, operation["value"])
            case "greeting":
                chat.choose_greeting(chat.greeting_index + (1 if operation["direction"] == "next" else -1))
            case "new_chat":
                self.drawn += 1
                chat.new_chat()
            case "switch_chat":
                self.drawn += 1
                chat.open_chat(index)
            case "branch":
                self.drawn += 1
                self.chat = chat.branch(index)
            case "select_character":
                chat.select(self.ids[index])
            case "manual_trigger":
                await chat.run_trigger(operation["name"], trigger_id=operation.get("id"))
            case "button":
                await chat.click(operation["name"])
            case "persona":
                chat.switch_persona(index)
            case "preset":
                chat.switch_preset(index)
            case "set_db":
                chat.settings = Settings.from_json(
                    {**self.settings(), **operation["values"]}, warn=lambda _: None
                ).replace(texts=TEXTS)
            case "set_chat":
                chat.change_chat(operation["values"])
            case "set_character":
                chat.character = RisuCharacter.from_json({**chat.character.raw, **operation["values"]})
            case "set_global":
                chat.variables.set(operation["name"], operation["value"], "global")
            case "advance_clock":
                self.now += timedelta(milliseconds=operation["ms"])
            case "display":
                return chat.display(index)
            case other:
                raise AssertionError(other)
        return None

    def settings(self) -> dict[str, Any]:
        settings = self.chat.settings
        written = {**settings.raw, "username": settings.username, "personaPrompt": settings.persona_prompt}
        personas = [{"id": each.id, "name": each.name, "personaPrompt": each.prompt} for each in settings.personas]
        presets = [each.to_json() for each in settings.presets]
        lists = {"personas": personas, "botPresets": presets, "selectedPersona": settings.selected_persona}
        return {**written, **lists}

    def changes(self) -> dict[str, Any]:
        """What the recording shows when a step changes it."""
        chat = self.chat
        shown = {key: value for key, value in self.settings().items() if key in DATABASE_KEYS}
        shown["mainPrompt"] = chat.settings.preset.main_prompt
        shown["globalChatVariables"] = chat.variables.to_dict().get("global", {})
        characters = {
            each.id: {key: value for key, value in each.raw.items() if key not in ("chats", "chatPage")}
            for each in (chat.character, *chat.members)
        }
        return {"db": thaw(shown), "characters": thaw(characters)}

    def state(self, found: dict[str, Any]) -> dict[str, Any]:
        chat, now = self.chat, self.changes()
        stored = masked_ids(chat.stored)
        found |= {
            "requests": self.network.requests,
            "messages": [plain_message(message) for message in stored["message"]],
            "scriptstate": stored.get("scriptstate", {}),
            "memory": {key: stored[key] for key in MEMORY if stored.get(key) is not None},
            "local_lore": stored.get("localLore"),
            "note": stored.get("note"),
            "random_calls": self.drawn,
            "alerts": self.dialogs.alerts,
            "db_changes": changed(self.before["db"], now["db"]),
            "character_changes": {
                name: fields
                for name, each in now["characters"].items()
                if (fields := changed(self.before["characters"].get(name, {}), each))
            },
        }
        if stored.get("fmIndex") != -1:
            found["fm_index"] = stored.get("fmIndex")
        if len(chat.chats) > 1:
            found |= {"chat_page": chat.page, "chat_names": [each.name for each in chat.chats]}
        self.before = now
        required = ("requests", "messages", "scriptstate", "fm_index", "chat_page")
        return {key: value for key, value in found.items() if value or key in required}

    def final(self) -> dict[str, Any]:
        stored = masked_ids(self.chat.stored)
        for message in stored["message"]:
            info = message.get("generationInfo")
            if info:
                message["generationInfo"] = {
                    key: info[key] for key in ("model", "inputTokens", "outputTokens", "maxContext") if key in info
                }
            for key in ("chatId", "time", "promptInfo"):
                message.pop(key, None)
        stored.pop("id", None)
        return stored


def inlay(given: dict[str, Any]) -> Inlay:
    kind, _, data = given["data"].partition(",")
    return Inlay(Attachment.make(given["type"], data=data, media_type=kind.removeprefix("data:").partition(";")[0]))


def stored_character(raw: Any, index: int) -> RisuCharacter:
    chats = [{**defaults()["chat"], **chat} for chat in raw.get("chats", [{}])]
    return character({**raw, "chats": chats}, index)


def plain_message(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key not in HIDDEN and not (key == "name" and value is None)}


def changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in after.items() if before.get(key) != value}


def masked_ids(stored: dict[str, Any]) -> dict[str, Any]:
    """The recording names messages by their places, and other made-up ids not at all."""
    places = {message.get("chatId"): f"<<message {index}>>" for index, message in enumerate(stored["message"])}

    def mask(value: Any) -> Any:
        if isinstance(value, str):
            first, line, rest = value.partition("\n")  # Supa memory begins with an id
            return UUID.sub("<<uuid>>", places.get(first, first) + line + rest)
        if isinstance(value, dict):
            return {key: mask(each) for key, each in value.items()}
        return [mask(each) for each in value] if isinstance(value, list) else value

    messages = [{**each, "data": UUID.sub("<<uuid>>", each["data"])} for each in stored["message"]]
    return {**mask(stored), "message": messages}
