"""Whole conversations: every request, the chat, its header and the variables after each operation."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import zip_longest
from typing import Any

from tavernkit._turns import ToolOutcome
from tavernkit.cards import Character, User
from tavernkit.models import ModelError, Reply, ReplyPiece, ToolCall
from tavernkit.silly_tavern._chat.card_fields import Persona
from tavernkit.silly_tavern._conversation.chat import Chat
from tavernkit.silly_tavern._files.chat_file import ChatFile
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._group import CharacterExtras, Group
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScripts
from tavernkit.silly_tavern._text_completion.plan import TextPlan
from tavernkit.silly_tavern._world_info.book import WorldBook
from tests.conformance.runner import VECTORS, Case

NOT_RECORDED = ("send_date", "gen_started", "gen_finished", "title")
NOT_RECORDED_IN_EXTRA = ("gen_id", "reasoning_duration", "token_count", "time_to_first_token", "branches")
NOT_RECORDED_IN_REQUESTS = (
    "enable_web_search",
    "request_images",
    "request_image_resolution",
    "request_image_aspect_ratio",
)
TEXT_MODEL = "conv-model"
NO_REPLY = "No canned reply was given."
START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


@cache
def defaults() -> Any:
    return json.loads((VECTORS / "silly_tavern" / "conversations.defaults.json").read_text("utf-8"))


def run(case: Case) -> object:
    return asyncio.run(Talk(case.input, case.expected).run())


class Talk:
    """A chat, the canned replies of the operation that runs, and what it has asked for."""

    def __init__(self, given: Any, expected: Any) -> None:
        self.given = given
        self.expected = expected
        self.replies: list[Any] = []
        self.requests: list[Any] = []
        self.draws: list[float] = []
        self.numbers = given.get("random") or [0.42]
        self.drawn = 0
        self.time = START
        self.power_user = merged(defaults()["power_user"], given.get("power_user", {}))
        if "persona" in given:
            for key, value in given["persona"].items():
                self.power_user[f"persona_description{'' if key == 'description' else f'_{key}'}"] = value
        self.preset = {**defaults()["preset"], **given.get("preset", {})}
        self.extension_settings = merged(defaults()["extension_settings"], given.get("extension_settings", {}))
        self.chat = self.make_chat()

    def make_chat(self) -> Chat:
        given = self.given
        lines = [json.dumps({"chat_metadata": given.get("chat_metadata", {})})]
        lines += [json.dumps(line) for line in given.get("chat", [])]
        chat = ChatFile.loads("\n".join(lines), name=given["chat_id"])
        inputs: dict[str, Any] = {
            "settings": self.settings(),
            "preset": Preset.from_json(self.preset),
            "user": User(name=given["user_name"]),
            "persona": self.persona(self.power_user, "persona_description"),
            "random": self.draw,
            "clock": lambda: self.time,
            "tools": given.get("tools", []),
            "on_overflow": "return",
            "warn": None,
            "books": [self.book(name) for name in given.get("global_books", [])],
            "chat_books": self.books(given.get("chat_metadata", {}).get("world_info")),
        }
        if given.get("api") == "textgenerationwebui":
            inputs["dialect"] = "text"
        if "card" in given:
            card = Character.from_card(given["card"])
            inputs["character"] = card
            inputs["regex_scripts"] = self.scripts(given["card"], card)
            inputs["character_books"] = self.books(card.extensions.get("world"))
        else:
            cards = {f"{raw['data']['name']}.png": raw for raw in given["cards"]}
            inputs["members"] = {avatar: Character.from_card(raw) for avatar, raw in cards.items()}
            inputs["member_extras"] = {
                avatar: CharacterExtras(
                    books=self.books(inputs["members"][avatar].extensions.get("world")),
                    regex_scripts=self.scripts(raw, inputs["members"][avatar]),
                )
                for avatar, raw in cards.items()
            }
            inputs["regex_scripts"] = RegexScripts.from_settings(self.extension_settings)
            group = dict(given["group"])
            for key in ("members", "disabled_members"):
                group[key] = [f"{name}.png" for name in group.get(key, [])]
            inputs["group"] = Group.from_json(group)
        return Chat(self, chat=chat, **inputs)

    def settings(self) -> Settings:
        given = self.given
        return Settings.from_json(
            {
                "username": given["user_name"],
                "power_user": self.power_user,
                "max_context": given.get("max_context", defaults()["max_context"]),
                "amount_gen": given.get("amount_gen", defaults()["amount_gen"]),
                "main_api": given.get("api", "openai"),
                "textgenerationwebui_settings": {**defaults()["textgen"], **given.get("textgen", {})},
                "world_info_settings": {
                    **defaults()["world_info_settings"],
                    **given.get("world_info_settings", {}),
                },
                "extension_settings": self.extension_settings,
            }
        )

    def persona(self, source: Any, prefix: str) -> Persona:
        key = f"{prefix}_" if prefix else ""
        return Persona(
            description=source.get(prefix or "description", ""),
            position=source.get(f"{key}position", 0),
            depth=source.get(f"{key}depth", 2),
            role=source.get(f"{key}role", 0),
        )

    def scripts(self, raw: Any, card: Character) -> RegexScripts:
        return RegexScripts.from_settings(self.extension_settings, card_data=raw["data"], avatar=f"{card.name}.png")

    def book(self, name: str) -> WorldBook:
        return WorldBook.from_json(self.given["books"][name], name=name)

    def books(self, name: object) -> list[WorldBook]:
        return [self.book(name)] if isinstance(name, str) and name in self.given.get("books", {}) else []

    # The host of the chat

    def draw(self) -> float:
        self.drawn += 1
        number = self.numbers[(self.drawn - 1) % len(self.numbers)]
        self.draws.append(number)
        return number

    async def checkpoint(self) -> None:
        json.dumps(self.chat.snapshot())

    async def ask(self, plan: Any, *, on_piece: Any = None) -> Reply:
        body = plan.to_request()
        if isinstance(plan, TextPlan):
            settings = {**defaults()["textgen"], **self.given.get("textgen", {})}
            body["temperature"] = settings["temp"]
        body = {key: value for key, value in body.items() if key not in NOT_RECORDED_IN_REQUESTS}
        if self.given.get("streaming") or not isinstance(plan, TextPlan):
            body["stream"] = bool(self.given.get("streaming"))
        self.requests.append(body)
        canned = self.replies.pop(0) if self.replies else NO_REPLY
        reply: Any = {"content": canned} if isinstance(canned, str) else canned
        if "error" in reply:
            raise ModelError(str(reply["error"]))
        model = TEXT_MODEL if isinstance(plan, TextPlan) else ""
        text = "".join(reply["chunks"]) if "chunks" in reply else reply.get("content", "")
        if self.given.get("streaming"):
            for chunk in reply.get("chunks", [text]):
                on_piece(ReplyPiece(text=chunk))
        return Reply(
            text=text,
            # SillyTavern reads no reasoning from replies of this source.
            reasoning=reply.get("reasoning", "") if self.preset["chat_completion_source"] != "openai" else "",
            tool_calls=tuple(
                ToolCall(id=each["id"], name=each["name"], arguments=each["arguments"])
                for each in reply.get("tool_calls", [])
            ),
            alternatives=tuple(reply.get("more", [])),
            model=model,
        )

    async def call_tool(self, call: ToolCall) -> ToolOutcome:
        tool = next(each for each in self.given["tools"] if each["name"] == call.name)
        result = tool["result"]
        return ToolOutcome(result=result if isinstance(result, str) else json.dumps(result, separators=(",", ":")))

    # Operations

    async def run(self) -> object:
        self.chat.open()
        opened = self.recorded()
        steps: list[object] = []
        self.drawn, self.draws = 0, []
        for number, operation in enumerate(self.given["operations"]):
            self.time = START + timedelta(minutes=number + 1)
            self.requests, self.draws = [], []
            self.replies = list(operation.get("replies") or ([operation["reply"]] if "reply" in operation else []))
            found: dict[str, object] = {}
            try:
                result = await self.do(operation)
                if result is not None:
                    found["result"] = result
            except ModelError:
                if operation["op"] != "swipe":  # SillyTavern's arrow shows the swipe before and says nothing
                    found["failed"] = True
            step = {"requests": self.requests, **self.recorded(), **found}
            if self.draws:
                # Who asked for a number is not ours to know: numbers and how many there are is compared.
                recorded = self.expected["steps"][number].get("draws", [])
                step["draws"] = [
                    [who, value] for (who, _), value in zip_longest(recorded, self.draws, fillvalue=("", 0))
                ]
            if self.replies:
                step["unused_replies"] = len(self.replies)
            if self.chat.chat_id != self.given["chat_id"]:
                step["chat_id"] = self.chat.chat_id
            steps.append(step)
        header, *lines = [json.loads(line) for line in self.chat.file.dumps().split("\n")]
        return {"opened": opened, "steps": steps, "saved": [header, *map(recorded_line, lines)]}

    async def do(self, operation: Any) -> object:
        chat, op = self.chat, operation["op"]
        if op == "send":
            await chat.send(operation.get("text", ""))
        elif op == "swipe":
            if operation.get("index", len(chat.lines) - 1) == len(chat.lines) - 1:
                await chat.swipe(operation.get("direction", "right"))
        elif op == "regenerate":
            await chat.regenerate()
        elif op == "continue":
            await chat.continue_reply(operation.get("text", ""))
        elif op == "impersonate":
            return (await chat.impersonate()).text
        elif op == "quiet":
            names = {
                "quietToLoud": "quiet_to_loud",
                "responseLength": "response_length",
                "quietName": "quiet_name",
                "skipWIAN": "skip_world_info_registration",
            }
            options = {names[key]: value for key, value in operation.get("options", {}).items()}
            return (await chat.quiet(operation["prompt"], **options)).text
        elif op == "slash":
            return (await chat.run_command(operation["command"])).text
        elif op == "trigger":
            await chat.speak(operation["member"])
        else:
            return self.change(operation)
        return None

    def change(self, operation: Any) -> object:
        chat, op = self.chat, operation["op"]
        match op:
            case "edit":
                chat.edit(operation["index"], operation["text"])
            case "delete_message":
                chat.delete(operation["index"])
            case "delete_from":
                chat.delete_from(operation["index"])
            case "delete_last":
                chat.delete_last(operation["count"])
            case "delete_swipe":
                chat.delete_swipe(operation["swipe"], operation.get("index", -1))
            case "hide" | "unhide":
                start, _, end = str(operation["range"]).partition("-")
                (chat.hide if op == "hide" else chat.unhide)(int(start), int(end) if end else None)
            case "branch":
                self.chat = chat.branch(operation["index"])
                self.chat.open()
                return self.chat.chat_id
            case "note":
                chat.set_note(**{key: value for key, value in operation.items() if key != "op"})
            case "mute":
                chat.mute(operation["member"])
            case "unmute":
                chat.unmute(operation["member"])
            case "group_settings":
                values = operation["values"]
                group = chat.state.context().group
                assert group is not None
                chat.change(group=Group.from_json({**group.to_json(), **values}))
            case "set_persona":
                avatar = operation["avatar"]
                persona = self.given["personas"][avatar]
                chat.change_user(
                    avatar,
                    user=User(name=persona["name"]),
                    persona=self.persona(persona, ""),
                    persona_books=self.books(persona.get("lorebook")),
                )
                self.locked = avatar
            case "lock_persona":
                if operation.get("type", "chat") == "chat":
                    chat.state.header["persona"] = chat.state.user_avatar
            case "settings":
                self.power_user = merged(self.power_user, operation.get("power_user", {}))
                self.preset = {**self.preset, **operation.get("preset", {})}
                chat.change(settings=self.settings(), preset=Preset.from_json(self.preset))
            case "reload":
                file = ChatFile.loads(chat.file.dumps(), name=chat.chat_id)
                chat.restore({**chat.snapshot(), "lines": [line.to_json() for line in file.messages]})
                chat.open()
            case _:
                raise AssertionError(op)
        return None

    def recorded(self) -> dict[str, object]:
        chat = self.chat
        found: dict[str, object] = {
            "chat": [recorded_line(json.loads(json.dumps(line))) for line in chat.lines],
            "metadata": json.loads(json.dumps(chat.metadata)),
        }
        variables = chat.variables.to_dict().get("global")
        if variables:
            found["global_variables"] = variables
        name = chat.state.context().user_name
        if name != self.given["user_name"]:
            found["user_name"] = name
        return found


def merged(base: Any, changes: Any) -> Any:
    found = dict(base)
    for key, value in changes.items():
        found[key] = {**found.get(key, {}), **value} if isinstance(value, dict) else value
    return found


def recorded_line(line: Any) -> Any:
    line = {key: value for key, value in line.items() if key not in NOT_RECORDED}
    clean_extra(line)
    for info in line.get("swipe_info", []):
        for key in list(info):
            if key != "extra":
                del info[key]
        clean_extra(info)
    return line


def clean_extra(holder: Any) -> None:
    if "extra" in holder:
        holder["extra"] = {k: v for k, v in holder["extra"].items() if k not in NOT_RECORDED_IN_EXTRA}
