"""Recorded conversations as a client of the REST API would have them: a data folder is served, and operated on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tavernkit.testing import ScriptedModel, answer, failure
from tests.conformance.adapters.silly_tavern.conversations import defaults, merged
from tests.conformance.adapters.silly_tavern.folder_inputs import RED_PIXEL, write_bytes, write_card, write_json
from tests.server.conftest import Client

MISSING: Mapping[str, str] = {
    "tools": "clients run their tools themselves (tests/server/test_sessions.py)",
    "clock": "the clock is the server's",
    "several choices": "one reply is asked for",
}
"""Operations, forms of them and inputs that the service does not have, and why."""

_QUIET = {
    "quietName": "quiet_name",
    "quietToLoud": "quiet_to_loud",
    "responseLength": "max_tokens",
    "skipWIAN": "skip_world_info_registration",
}
_UNREPEATABLE = {"{{idle": "clock", "{{time": "clock"}


def missing(case: Any) -> set[str]:
    """What a case needs that the service does not have: keys of the table above."""
    given, text = case["input"], json.dumps(case)
    found = {why for word, why in _UNREPEATABLE.items() if word in text}
    found |= {"tools"} if given.get("tools") else set[str]()
    for operation in given["operations"]:
        kind = operation["op"]
        if kind in MISSING:
            found.add(kind)
        if any("more" in reply for reply in replies_of(operation) if isinstance(reply, dict)):
            found.add("several choices")
    return found


def replies_of(operation: Any) -> list[Any]:
    return list(operation.get("replies") or ([operation["reply"]] if "reply" in operation else []))


class RecordedModel(ScriptedModel):
    """Answers what the operation that is replayed was answered."""

    def __init__(self, given: Any) -> None:
        super().__init__(self._next, name="gpt-4o", repeat_last=True)
        self.dialect = "text" if "api" in given else "openai"
        self.replies: list[Any] = []
        # SillyTavern reads no reasoning from replies of OpenAI's own models.
        self.reasons = given.get("preset", {}).get("chat_completion_source", "openai") != "openai"

    def _next(self, _body: object) -> Any:
        reply = self.replies.pop(0) if self.replies else "No canned reply was given."
        if not isinstance(reply, dict):
            return reply
        if "error" in reply:
            return failure(400)
        text = "".join(reply["chunks"]) if "chunks" in reply else reply.get("content", "")
        reasoning = reply.get("reasoning", "") if self.reasons else ""
        return answer(text, reasoning=reasoning)


class Dice:
    """The random numbers of a recording."""

    def __init__(self) -> None:
        self.begin(None)

    def begin(self, numbers: Sequence[float] | None) -> None:
        """Start with the first of these numbers."""
        self._numbers = numbers or [0.42]
        self._drawn = 0

    def __call__(self) -> float:
        self._drawn += 1
        return self._numbers[(self._drawn - 1) % len(self._numbers)]


def write_folder(folder: Path, given: Any) -> None:
    """Write the data folder of a case."""
    power_user = merged(defaults()["power_user"], given.get("power_user", {}))
    for key, value in given.get("persona", {}).items():
        power_user[f"persona_description{'' if key == 'description' else f'_{key}'}"] = value
    info = {**defaults()["world_info_settings"], **given.get("world_info_settings", {})}
    info["world_info"] = {**info.get("world_info", {}), "globalSelect": given.get("global_books", [])}
    settings = {
        "username": given["user_name"],
        "user_avatar": "user.png",
        "power_user": {**power_user, **_personas(given), "default_persona": None},
        "max_context": given.get("max_context", defaults()["max_context"]),
        "amount_gen": given.get("amount_gen", defaults()["amount_gen"]),
        "main_api": given.get("api", "openai"),
        "oai_settings": {**defaults()["preset"], **given.get("preset", {})},
        "textgenerationwebui_settings": {**defaults()["textgen"], **given.get("textgen", {})},
        "world_info_settings": info,
        "extension_settings": merged(defaults()["extension_settings"], given.get("extension_settings", {})),
    }
    write_json(folder / "settings.json", settings)
    for avatar in ("user.png", *given.get("personas", ())):
        write_bytes(folder / "User Avatars" / avatar, RED_PIXEL)
    for card in given.get("cards") or [given["card"]]:
        write_card(folder, card)
    for name, book in given.get("books", {}).items():
        write_json(folder / "worlds" / f"{name}.json", book)
    if "chat" in given:
        header = {"chat_metadata": given.get("chat_metadata", {})}
        place = "group chats" if "group" in given else f"chats/{given['card']['data']['name']}"
        lines = "\n".join(json.dumps(line) for line in [header, *given["chat"]])
        write_bytes(folder / place / f"{given['chat_id']}.jsonl", lines.encode())
    if "group" in given:
        group = {"id": "group", "name": "Group", "chat_id": given["chat_id"], "chats": [given["chat_id"]]}
        group |= given["group"]
        for key in ("members", "disabled_members"):
            group[key] = [f"{name}.png" for name in group.get(key, [])]
        write_json(folder / "groups" / "group.json", group)


def _personas(given: Any) -> Any:
    listed = given.get("personas", {})
    return {
        "personas": {avatar: persona["name"] for avatar, persona in listed.items()},
        "persona_descriptions": {avatar: {"depth": 2, "role": 0, **persona} for avatar, persona in listed.items()},
    }


class Replay:
    """A recorded conversation, played through the REST API."""

    def __init__(self, client: Client, case: Any, folder: Path) -> None:
        self.client = client
        self.given = dict(case["input"])
        self.base = ""
        self.result: str | None = None
        """What the last command returned, if the answer says it."""
        self._folder = folder
        headers = (step["metadata"] for step in case["expected"]["steps"])
        self._hash = next((header["chat_id_hash"] for header in headers if "chat_id_hash" in header), None)

    async def begin(self) -> None:
        """Begin a new chat with the character or the group, or open the one that the folder has."""
        kind = "groups" if "group" in self.given else "characters"
        item = (await self.client.get(f"/api/{kind}")).json()["data"][0]
        self.item = item["id"]
        if "chat" in self.given:
            session = (await self.client.get("/api/sessions")).json()["data"][0]["id"]
        else:
            model = f"group:{item['id']}" if kind == "groups" else item["id"]
            made = await self.client.post("/api/sessions", json={"model": model})
            assert made.status_code == 201, made.text
            session = made.json()["id"]
        self.base = f"/api/sessions/{session}"
        # SillyTavern's {{pick}} depends on the name of the chat's file.
        named = {"chat_id_hash": self._hash} if self._hash is not None else {}
        await self._change_details({**self.given.get("chat_metadata", {}), **named})

    async def operate(self, operation: Any) -> None:
        """Do what a user did."""
        client, base, kind = self.client, self.base, operation["op"]
        failed = any("error" in each for each in replies_of(operation) if isinstance(each, dict))
        match kind:
            case "send":
                answer = await self._turn("messages", content=operation.get("text", ""))
            case "slash":
                answer = await self._turn("messages", content=operation["command"], commands=True)
                self.result = None if self.given.get("streaming") else answer.json()["text"]
            case "trigger":
                answer = await self._turn("generate", speaker=operation["member"])
            case "regenerate" | "impersonate":
                answer = await self._turn(kind)
            case "continue":
                answer = await self._turn(kind, content=operation.get("text", ""))
            case "quiet":
                given = {_QUIET[key]: value for key, value in operation.get("options", {}).items()}
                length = {"max_tokens": given.pop("max_tokens")} if "max_tokens" in given else {}
                answer = await self._turn(kind, prompt=operation["prompt"], options=length, **given)
            case "swipe":
                if operation.get("index", -1) not in (-1, len(await self.messages()) - 1):
                    return  # SillyTavern's arrows are on the last message
                await self._swipe(1 if operation.get("direction", "right") == "right" else -1, failed=failed)
                return
            case "edit":
                path = await self._line(operation["index"])
                answer = await client.patch(path, json={"content": operation["text"]})
            case "hide" | "unhide":
                first, _, last = str(operation["range"]).partition("-")
                lines = (await self.messages())[int(first) : int(last or first) + 1]
                for line in lines if int(last or first) < len(await self.messages()) else ():
                    path = f"{base}/messages/{line['id']}"
                    assert (await client.patch(path, json={"hidden": kind == "hide"})).is_success
                return
            case "delete_swipe":
                path = await self._line(operation.get("index", -1))
                answer = await client.delete(f"{path}/swipes/{operation['swipe']}")
                failed = answer.status_code == 422  # the only one stays
            case "set_persona":
                listed = (await client.get("/api/personas")).json()["data"]
                name = self.given["personas"][operation["avatar"]]["name"]
                persona = next(each["id"] for each in listed if each["name"] == name)
                answer = await client.patch(base, json={"persona": persona})
            case "settings":
                for key in ("power_user", "preset"):
                    self.given[key] = merged(self.given.get(key, {}), operation.get(key, {}))
                write_folder(self._folder, self.given)
                await client.service.folders.read(self._folder)
                return
            case "lock_persona":
                return  # a session keeps its persona anyway
            case "reload":
                return  # whatever is asked for next is read from the database
            case "delete_message" | "delete_from":
                following = kind == "delete_from"
                answer = await client.delete(await self._line(operation["index"]), params={"following": following})
            case "delete_last":
                at = max(len(await self.messages()) - operation["count"], 0)
                answer = await client.delete(await self._line(at), params={"following": True})
            case "note":
                places = {"before": 2, "after": 0, "chat": 1}
                roles = {"system": 0, "user": 1, "assistant": 2}
                note = {f"note_{key}": value for key, value in operation.items() if key != "op"}
                note |= {"note_position": places.get(str(operation.get("position")), operation.get("position"))}
                note |= {"note_role": roles.get(str(operation.get("role")), operation.get("role"))}
                answer = await self._change_details({key: each for key, each in note.items() if each is not None})
            case "branch":
                message = (await self.messages())[operation["index"]]["id"]
                answer = await client.post(f"{base}/actions/branch", json={"message_id": message})
                self.base = f"/api/sessions/{answer.json()['id']}"
            case "mute" | "unmute" | "group_settings":
                answer = await self._change_group(operation)
            case other:
                raise AssertionError(other)
        assert answer.is_success or answer.status_code == 409 or failed, answer.text

    async def messages(self) -> list[Any]:
        """The messages of the chat that is open."""
        return (await self.client.get(f"{self.base}/messages")).json()["data"]

    async def stored(self) -> list[tuple[object, ...]]:
        """Who said what in it, instead of what, and whether prompts leave it out."""
        return [
            (line["role"] == "user", line["content"], line.get("swipes") or [line["content"]], line["hidden"])
            for line in await self.messages()
        ]

    async def _swipe(self, step: int, *, failed: bool) -> None:
        """One of the arrows: replies that are there are shown, and another is asked for behind the last."""
        last = (await self.messages() or [None])[-1]
        if last is None or last["role"] == "user":
            return
        swipes, shown = last["swipes"] or [last["content"]], (last["swipe"] or 0) + step
        details = (await self.client.get(self.base)).json()["details"]
        only_greeting = len(await self.messages()) == 1 and not details.get("tainted")
        if shown < len(swipes) or only_greeting or last["hidden"]:  # the arrows go round
            path = f"{self.base}/messages/{last['id']}/swipe"
            assert (await self.client.put(path, json={"swipe": shown % len(swipes)})).is_success
        else:
            answer = await self._turn("swipe")
            assert answer.is_success or answer.status_code == 409 or failed, answer.text  # there is no reply

    async def _turn(self, kind: str, **body: Any) -> Any:
        body["stream"] = bool(self.given.get("streaming"))
        return await self.client.post(f"{self.base}/{kind}", json=body)

    async def _line(self, index: int) -> str:
        return f"{self.base}/messages/{(await self.messages())[index]['id']}"

    async def _change_details(self, values: Any) -> Any:
        details = (await self.client.get(self.base)).json()["details"]
        return await self.client.patch(self.base, json={"details": {**details, **values}})

    async def _change_group(self, operation: Any) -> Any:
        group = (await self.client.get(f"/api/groups/{self.item}")).json()["content"]
        if operation["op"] == "group_settings":
            group |= operation["values"]
        else:
            listed = (await self.client.get("/api/characters")).json()["data"]
            member = next(each["id"] for each in listed if each["name"] == operation["member"])
            others = [each for each in group["disabled_members"] if each != member]
            group["disabled_members"] = [*others, member] if operation["op"] == "mute" else others
        return await self.client.put(f"/api/groups/{self.item}", json=group)
