"""Recorded conversations as a client of the REST API would have them: a data folder is served, and operated on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tavernkit.testing import ScriptedModel, failure
from tests.conformance.adapters.silly_tavern.conversations import defaults, merged
from tests.conformance.adapters.silly_tavern.folder_inputs import RED_PIXEL, write_bytes, write_card, write_json
from tests.server.conftest import Client

MISSING: Mapping[str, str] = {
    "quiet": "prompts beside the chat are not kept: clients send messages of their own",
    "slash": "a text that begins with a slash is sent as it is",
    "hide": "messages are edited and removed, not hidden",
    "unhide": "messages are edited and removed, not hidden",
    "trigger": "REST has no turn without a message besides regenerate, swipe, continue and impersonate",
    "delete_swipe": "swipes are chosen, not removed",
    "set_persona": "a session names its persona by its id here, not by its picture",
    "lock_persona": "a session names its persona",
    "settings": "settings are the folder's, or those of PUT /api/settings",
    "reload": "nothing is loaded again: the database has the chat",
    "tools": "clients run their tools themselves (tests/server/test_sessions.py)",
    "empty": "a message has a text",
    "command": "a text that begins with a slash is sent as it is",
    "added text": "continue takes no text",
    "older swipe": "only the last message is swiped",
    "random": "random numbers are drawn from a seed",
    "clock": "the clock is the server's",
    "several choices": "one reply is asked for",
    "streaming": "replies are cleaned up as a whole",
    "reasoning": "reasoning is kept of every provider; SillyTavern reads none of this source",
    "error": "the first request that fails is the turn's failure, and nothing is stored of it",
    "automatic": "a client asks for another reply, or for more of it, itself",
    "chat": "an imported chat is another session than a new one (tests/server/test_imported_folders.py)",
}
"""Operations, forms of them and inputs that the service does not have, and why."""

_UNREPEATABLE = {"{{random": "random", "{{roll": "random", "{{pick": "random", "{{idle": "clock", "{{time": "clock"}


def missing(case: Any) -> set[str]:
    """What a case needs that the service does not have: keys of the table above."""
    given, text = case["input"], json.dumps(case)
    found = {why for word, why in _UNREPEATABLE.items() if word in text}
    found |= {name for name in ("tools", "streaming", "chat") if given.get(name)}
    power_user = given.get("power_user", {})
    if power_user.get("auto_swipe") or power_user.get("auto_continue", {}).get("enabled"):
        found.add("automatic")
    if power_user.get("continue_on_send"):
        found.add("empty")
    if any(step.get("draws") for step in case["expected"]["steps"]):
        found.add("random")
    for operation, step in zip(given["operations"], case["expected"]["steps"], strict=True):
        kind = operation["op"]
        if kind in MISSING:
            found.add(kind)
        if kind == "send" and not operation.get("text"):
            found.add("empty")
        if kind == "send" and operation.get("text", "").startswith("/"):
            found.add("command")
        if kind == "continue" and operation.get("text"):
            found.add("added text")
        if kind == "swipe" and "index" in operation:
            found.add("older swipe")
        for reply in replies_of(operation):
            if isinstance(reply, dict):
                named = {"error": "error", "more": "several choices", "reasoning": "reasoning", "tool_calls": "tools"}
                found |= {named[key] for key in named if key in reply}
        del step
    return found


def replies_of(operation: Any) -> list[Any]:
    return list(operation.get("replies") or ([operation["reply"]] if "reply" in operation else []))


class RecordedModel(ScriptedModel):
    """Answers what the operation that is replayed was answered."""

    def __init__(self, *, text: bool) -> None:
        super().__init__(self._next, name="gpt-4o", repeat_last=True)
        self.dialect = "text" if text else "openai"
        self.replies: list[Any] = []

    def _next(self, _body: object) -> Any:
        reply = self.replies.pop(0) if self.replies else "No canned reply was given."
        if isinstance(reply, dict):
            return failure(400) if "error" in reply else reply.get("content", "".join(reply.get("chunks", ())))
        return reply


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
        "power_user": {**power_user, "personas": {}, "default_persona": None},
        "max_context": given.get("max_context", defaults()["max_context"]),
        "amount_gen": given.get("amount_gen", defaults()["amount_gen"]),
        "main_api": given.get("api", "openai"),
        "oai_settings": {**defaults()["preset"], **given.get("preset", {})},
        "textgenerationwebui_settings": {**defaults()["textgen"], **given.get("textgen", {})},
        "world_info_settings": info,
        "extension_settings": merged(defaults()["extension_settings"], given.get("extension_settings", {})),
    }
    write_json(folder / "settings.json", settings)
    write_bytes(folder / "User Avatars" / "user.png", RED_PIXEL)
    for card in given.get("cards") or [given["card"]]:
        write_card(folder, card)
    for name, book in given.get("books", {}).items():
        write_json(folder / "worlds" / f"{name}.json", book)
    if "group" in given:
        group = {"id": "group", "name": "Group", **given["group"]}
        for key in ("members", "disabled_members"):
            group[key] = [f"{name}.png" for name in group.get(key, [])]
        write_json(folder / "groups" / "group.json", group)


class Replay:
    """A recorded conversation, played through the REST API."""

    def __init__(self, client: Client, given: Any) -> None:
        self.client = client
        self.given = given
        self.base = ""

    async def begin(self) -> None:
        """Begin a new chat with the character, or the group."""
        kind = "groups" if "group" in self.given else "characters"
        item = (await self.client.get(f"/api/{kind}")).json()["data"][0]
        self.item = item["id"]
        model = f"group:{item['id']}" if kind == "groups" else item["id"]
        made = await self.client.post("/api/sessions", json={"model": model})
        assert made.status_code == 201, made.text
        self.base = f"/api/sessions/{made.json()['id']}"
        if "chat_metadata" in self.given:
            await self._change_details(self.given["chat_metadata"])

    async def operate(self, operation: Any) -> None:
        """Do what a user did."""
        client, base, kind = self.client, self.base, operation["op"]
        match kind:
            case "send":
                answer = await client.post(f"{base}/messages", json={"content": operation["text"]})
            case "regenerate" | "continue" | "impersonate":
                answer = await client.post(f"{base}/{kind}", json={})
            case "swipe":
                await self._swipe(1 if operation.get("direction", "right") == "right" else -1)
                return
            case "edit":
                path = await self._line(operation["index"])
                answer = await client.patch(path, json={"content": operation["text"]})
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
        assert answer.is_success or answer.status_code == 409, answer.text

    async def messages(self) -> list[Any]:
        """The messages of the chat that is open."""
        return (await self.client.get(f"{self.base}/messages")).json()["data"]

    async def stored(self) -> list[tuple[object, ...]]:
        """Who said what in it, and instead of what."""
        return [
            (line["role"] == "user", line["content"], line.get("swipes") or [line["content"]])
            for line in await self.messages()
        ]

    async def _swipe(self, step: int) -> None:
        """One of the arrows: replies that are there are shown, and another is asked for behind the last."""
        last = (await self.messages() or [None])[-1]
        if last is None:
            return
        swipes, shown = last["swipes"] or [last["content"]], (last["swipe"] or 0) + step
        details = (await self.client.get(self.base)).json()["details"]
        only_greeting = len(await self.messages()) == 1 and not details.get("tainted")
        if shown < len(swipes) or only_greeting:  # the arrows go round
            path = f"{self.base}/messages/{last['id']}/swipe"
            assert (await self.client.put(path, json={"swipe": shown % len(swipes)})).is_success
        else:
            answer = await self.client.post(f"{self.base}/swipe", json={})
            assert answer.is_success or answer.status_code == 409, answer.text  # there is no reply yet

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
