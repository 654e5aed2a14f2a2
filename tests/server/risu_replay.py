"""Recorded RisuAI conversations as a client of the REST API would have them: what it sends for each operation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tavernkit import risu_ai
from tavernkit._values import thaw_object
from tavernkit.cards._png import placeholder_png
from tavernkit.cards._risu_ai.exporting import export_charx
from tavernkit.risu_ai._files.kept_fields import with_kept_fields
from tavernkit.server.library.chat_settings import NAMES
from tavernkit.testing import ScriptedModel, failure, streamed
from tests.conformance.adapters.risu_ai.build import defaults
from tests.conformance.adapters.risu_ai.conversations import stored_character
from tests.server.conftest import Client
from tests.server.test_imports import finished

PERSONA_KEYS = {"personaPrompt", "personas", "selectedPersona"}
PRESET_KEYS = {
    *("mainPrompt", "globalNote", "jailbreak", "promptTemplate", "promptSettings", "maxContext", "maxResponse"),
    *("aiModel", "subModel", "groupTemplate", "groupOtherBotRole", "presetRegex", "templateDefaultVariables"),
    *("customPromptTemplateToggle", "moduleIntergration"),
}
"""What of RisuAI's database a preset holds."""
DATABASE_KEYS = {*NAMES["risu_ai"]}
"""What of it are settings of all chats."""
SETTINGS = {
    *(*PERSONA_KEYS, *PRESET_KEYS, *DATABASE_KEYS),
    *("modules", "botPresets", "botPresetsId", "requestRetrys", "useStreaming"),
}
"""What of RisuAI's database the service has. A turn may be streamed, and what fails is not sent again."""

_MEMORY = "the service has a memory of its own (tests/server/test_memory.py)"
MISSING_SETTINGS: Mapping[str, str] = {
    "fallbackModels": "upstreams have fallbacks of their own",
    "fallbackWhenBlankResponse": "upstreams have fallbacks of their own",
    "inlayErrorResponse": "errors are answers of the API, not messages",
    "presetChain": "each session names its preset, which nothing else changes",
    **dict.fromkeys(
        ("hypaModel", "hypaV3", "hypaV3Presets", "hypav2", "hypaAllocatedTokens", "hypaChunkSize"), _MEMORY
    ),
    **dict.fromkeys(("supaModelType", "supaMemoryPrompt", "maxSupaChunkSize"), _MEMORY),
    **dict.fromkeys(("hanuraiEnable", "hanuraiTokens"), _MEMORY),
}
"""Settings of RisuAI's that the service does not have, and why."""

MISSING_OPERATIONS: Mapping[str, str] = {
    "advance_clock": "the clock is the server's",
}
"""Operations that the service does not have, and why."""

MISSING_FORMS: Mapping[str, str] = {
    "abort": "a client stops a reply by leaving",
    "retries": "upstreams have retries of their own, so that a failed request is sent once",
    "clock": "the clock is the server's",
    "swipes of another chat": "swipes belong to their message; no request opens a chat, where RisuAI forgets them",
    "anthropic": "an upstream says which protocol its requests have",
}
"""Forms of operations and inputs that the service does not have, and why."""

QUIRKS: Mapping[str, str] = {
    "0010": "a reply that is continued without words of the user's begins with them instead of with its own text",
    "0193": "a swipe that fails removes the reply until the next one",
    "0237": "a reply that a command asks for is lost if the rest of the command line is not understood",
    "0198": "[object Object] is added instead of what igpPrompt brings",
}
"""Cases in which RisuAI damages the chat: their sessions ask for that with ``quirks``. The others do not."""

_CLOCK = ("{{time", "{{date", "{{isotime", "{{unixtime", "{{idle", "{{message_")
_PICTURE = re.compile(r"(?<=\{\{inlayed::)[0-9a-f]{32}(?=\}\})")
_ID = re.compile(r"(?<=::)(?:[0-9a-f]{32}|chat-[a-z]+|<<uuid>>)(?=::)")


def missing(case: Any) -> set[str]:
    """What a case needs that the service does not have: keys of the tables above."""
    given, text = case["input"], json.dumps(case)
    found = {key for key in given["db"] if key not in SETTINGS}
    found |= {"clock"} if any(word in text for word in _CLOCK) else set[str]()
    found |= {"anthropic"} if str(given["db"].get("aiModel", "")).startswith("claude") else set[str]()
    kinds = [operation["op"] for operation in given["operations"]]
    opened = min((kinds.index(each) for each in ("switch_chat", "select_character") if each in kinds), default=None)
    if opened is not None and {"reroll", "unreroll"} & set(kinds[opened:]):
        found.add("swipes of another chat")
    for operation in given["operations"]:
        kind = operation["op"]
        if kind in MISSING_OPERATIONS:
            found.add(kind)
        if kind == "set_db":
            found |= set(operation["values"]) - PRESET_KEYS - DATABASE_KEYS
        if "abort_after_chunks" in operation:
            found.add("abort")
        for reply in operation.get("replies", ()):
            if isinstance(reply, dict) and "error" not in reply:
                found.add("abort")
            elif isinstance(reply, dict) and given["db"].get("requestRetrys") != 0:
                found.add("retries")
    return found


class Replay:
    """A recorded conversation, played through the REST API."""

    def __init__(self, client: Client, case: Any, folder: Path, *, quirks: bool = False) -> None:
        self.client = client
        self.given = case["input"]
        self.name = case["id"]
        self.folder = folder
        self.page = 0
        self.chats: list[str] = []
        self.alerts: list[list[str]] | None = None
        """What triggers have shown in the last operation, if the answer says it."""
        self._sent: list[str] = []
        self._pictures: dict[str, str] = {}
        """The recorded names of pictures, by their ids here."""
        self._selected = 0
        self._quirks = {"quirks": "reference"} if quirks else dict[str, str]()
        self._others: dict[int, tuple[list[str], int]] = {}

    @property
    def base(self) -> str:
        return f"/api/sessions/{self.chats[self.page]}"

    async def begin(self) -> None:
        """Import the characters as a save, and open the first one's chats."""
        characters = [stored_character(each, index) for index, each in enumerate(self.given["characters"])]
        self.raws = [_opened_before(thaw_object(each.raw)) for each in characters]
        stored: Any = self.raws[0]["chats"]
        for number, chat in enumerate(stored):
            chat.setdefault("id", f"{self.name}-{number}")
        path = self.folder / f"{self.name}.bin"
        risu_ai.Save.from_json({"characters": self.raws, "username": "Ann"}).save(path)
        for kind in _KINDS:  # those of the case before would be changed by an import of the same
            for each in await self._listed(kind):
                assert (await self.client.delete(f"/api/{kind}/{each['id']}")).is_success
        job = await finished(self.client, {"file": ("backup.bin", path.read_bytes())})
        assert job["status"] == "done", job
        new = {kind: await self._listed(kind) for kind in _KINDS}
        self._owners = {each["name"]: each["id"] for kind in ("characters", "groups") for each in new[kind]}
        self.owner = self._owners[self.raws[0]["name"]]
        for module in self.given["db"].get("modules", ()):
            file = risu_ai.write_module(risu_ai.RisuModule.from_json(module))
            await self._post("/api/modules", files={"file": (f"{module['id']}.risum", file)})
        self.database = dict(self.given["db"])
        await self._set_settings()
        variables = self.database.get("globalChatVariables", {})
        assert (await self.client.put(f"/api/variables{_RISU_AI}", json=variables)).is_success
        self.preset = await self._new_preset()
        self._presets = {self.given["db"].get("botPresetsId", 0): self.preset}
        self.personas = await self._new_personas()
        imported = iter(sorted((each["created_at"], each["id"]) for each in new["sessions"] if self._is_owners(each)))
        for chat in stored:
            self.chats.append(await self._opened(chat, next(imported)[1] if chat["message"] else None))

    async def operate(self, operation: Any, *, failed: bool) -> None:
        """Do what a user did; ``failed`` if RisuAI told the user about an error then."""
        client, base, kind = self.client, self.base, operation["op"]
        self.alerts = None
        match kind:
            case "send":
                content, answers = self._content(operation), operation.get("answers", [])
                commands = operation["text"].startswith("/")
                answer = await self._turn("messages", content=content, answers=answers, commands=commands)
            case "manual_trigger":
                body = {"name": operation["name"], "element": operation.get("id", "")}
                answer = await client.post(f"{base}/triggers", json=body)
            case "button":
                answer = await client.post(f"{base}/buttons", json={"name": operation["name"]})
            case "continue":
                answer = await self._turn(kind, content=operation.get("text", ""))
            case "generate":
                answer = await self._turn(kind)
            case "auto":
                for _ in range(operation["rounds"]):
                    answer = await self._turn("generate")
                    assert answer.is_success, answer.text
                return
            case "reroll" if self.raws[0].get("type") == "group":  # RisuAI has the whole round again
                answer = await self._turn("regenerate")
            case "reroll" | "unreroll":
                await self._swipe(1 if kind == "reroll" else -1, failed=failed)
                return
            case "disable":
                hidden = "all_before" if operation["value"] == "allBefore" else operation["value"]
                answer = await client.patch(await self._line(operation), json={"hidden": hidden})
                assert answer.json()["hidden"] == hidden
            case "set_global":
                found = (await client.get(f"/api/variables{_RISU_AI}")).json()
                changed = {**found, operation["name"]: operation["value"]}
                answer = await client.put(f"/api/variables{_RISU_AI}", json=changed)
            case "edit":
                answer = await client.patch(await self._line(operation), json={"content": operation["data"]})
            case "delete":
                following = bool(operation.get("following"))
                answer = await client.delete(await self._line(operation), params={"following": following})
            case "greeting":
                greetings: Any = self.raws[0].get("alternateGreetings") or []
                shown = (await self._details()).get("fmIndex", -1) + (1 if operation["direction"] == "next" else -1)
                # RisuAI counts from -1, the first message, and goes round.
                answer = await self._change_details({"fmIndex": (shown + 1) % (len(greetings) + 1) - 1})
            case "set_chat" if "bindedPersona" in operation["values"]:
                ids = [each["id"] for each in self.given["db"]["personas"]]
                persona = self.personas[ids.index(operation["values"]["bindedPersona"])]
                answer = await client.patch(base, json={"persona": persona})
            case "set_chat":
                answer = await self._change_details(operation["values"])
            case "set_db":
                self.database |= operation["values"]
                await self._set_settings()
                self.preset = await self._new_preset()
                answer = await client.patch(base, json={"preset": self.preset})
            case "set_character":
                answer = await self._change_owner(operation["values"])
            case "persona":
                self.persona = operation["index"]
                answer = await client.patch(base, json={"persona": self.personas[operation["index"]]})
            case "preset":
                content = {**self._preset_content(), **self.given["db"]["botPresets"][operation["index"]]}
                known = self._presets.get(operation["index"])
                self.preset = self._presets[operation["index"]] = known or await self._new_preset(content)
                answer = await client.patch(base, json={"preset": self.preset})
            case "display":
                return  # the service shows texts as they are stored
            case "select_character":
                await self._select(operation["index"])
                return
            case "new_chat":
                self.chats.insert(0, await self._new_session())
                self.page = 0
                return
            case "switch_chat":
                self.page = operation["index"]
                return
            case "branch":
                message = (await self.messages())[operation["index"]]["id"]
                answer = await client.post(f"{base}/actions/branch", json={"message_id": message})
                self.chats.insert(0, answer.json()["id"])
                self.page = 0
            case other:
                raise AssertionError(other)
        assert answer.is_success or answer.status_code == 409 or failed, answer.text
        if answer.is_success and isinstance(found := _json(answer).get("alerts"), list):
            self.alerts = [[each["kind"], _shown(each)] for each in found]

    async def messages(self) -> list[Any]:
        """The messages of the chat that is open."""
        return (await self.client.get(f"{self.base}/messages")).json()["data"]

    async def stored(self) -> list[tuple[str, str]]:
        """Who said what in it."""
        lines = await self.messages()
        return [("user" if line["role"] == "user" else "char", self._masked(line["content"])) for line in lines]

    def _masked(self, text: str) -> str:
        """A text with the recorded names of its pictures."""
        for made in _PICTURE.findall(text):
            if made not in self._pictures:
                self._pictures[made] = self._sent[len(self._pictures)]
            text = text.replace(made, self._pictures[made])
        return masked(text)

    def _content(self, operation: Any) -> Any:
        """What is sent: a text, or one with pictures."""
        self._sent += operation.get("files", [])
        urls = [self.given["inlays"][name]["data"] for name in operation.get("files", [])]
        pictures = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        return [{"type": "text", "text": operation["text"]}, *pictures] if pictures else operation["text"]

    async def variables(self) -> dict[str, Any]:
        """Its variables, as RisuAI names them."""
        found = (await self.client.get(self.base)).json()["variables"]
        return {f"${name}": value for name, value in found.items()}

    async def _listed(self, kind: str) -> list[Any]:
        found: list[Any] = []
        query = f"/api/{kind}?limit=100"
        while query:
            page = (await self.client.get(query)).json()
            found += page["data"]
            place = "before" if kind == "sessions" else "after"
            query = f"/api/{kind}?limit=100&{place}={page['next']}" if page["next"] else ""
        return found

    async def _post(self, path: str, **body: Any) -> str:
        made = await self.client.post(path, **body)
        assert made.status_code == 201, made.text
        return made.json()["id"]

    async def _set_settings(self) -> None:
        settings = {key: value for key, value in self.database.items() if key in DATABASE_KEYS}
        answer = await self.client.put(f"/api/settings{_RISU_AI}", json=settings)
        assert answer.is_success, answer.text

    async def _turn(self, kind: str, **body: Any) -> Any:
        body["stream"] = bool(self.database.get("useStreaming"))
        return await self.client.post(f"{self.base}/{kind}", json=body)

    def _preset_content(self) -> dict[str, Any]:
        base = defaults()
        content = {**base["risu_defaults"], **base["db"], **self.database}
        content["regex"] = content.pop("presetRegex", [])
        return content

    async def _new_preset(self, content: Any = None) -> str:
        file = json.dumps(content or self._preset_content())
        return await self._post("/api/presets", files={"file": (f"{self.name}.json", file)})

    async def _select(self, index: int) -> None:
        """Open the chats of another character; each has sessions of its own."""
        self._others[self._selected] = (self.chats, self.page)
        self._selected, self.owner = index, self._owners[self.raws[index]["name"]]
        if index not in self._others:
            self._others[index] = ([await self._new_session()], 0)
        self.chats, self.page = self._others[index]

    async def _new_personas(self) -> list[str]:
        """The personas, and which is in use."""
        used = {"name": "Ann", "personaPrompt": self.given["db"].get("personaPrompt", "")}
        listed = [dict(each) for each in self.given["db"].get("personas", [])] or [used]
        self.persona = self.given["db"].get("selectedPersona", 0)
        listed[self.persona] |= {"personaPrompt": used["personaPrompt"]}
        self.is_someone = bool(PERSONA_KEYS & set(self.given["db"]))
        bodies = [{"name": each["name"], "description": each["personaPrompt"]} for each in listed]
        return [await self._post("/api/personas", json=body) for body in bodies] if self.is_someone else []

    def _is_owners(self, session: Any) -> bool:
        return self.owner in (session["character"], session["group"])

    async def _opened(self, chat: Any, known: str | None) -> str:
        """A stored chat: it was imported if it has messages."""
        if known is not None:
            choices = {**self._choices(), **self._quirks}
            assert (await self.client.patch(f"/api/sessions/{known}", json=choices)).is_success
            return known
        made = await self._new_session()
        details = {key: value for key, value in chat.items() if key not in ("message", "scriptstate")}
        variables = {key[1:]: value for key, value in chat.get("scriptstate", {}).items()}
        body = {"details": details, "variables": variables}
        assert (await self.client.patch(f"/api/sessions/{made}", json=body)).is_success
        return made

    def _choices(self) -> dict[str, str]:
        chosen = {"preset": self.preset}
        return chosen | {"persona": self.personas[self.persona]} if self.is_someone else chosen

    async def _new_session(self) -> str:
        model = f"group:{self.owner}" if self.raws[0].get("type") == "group" else self.owner
        body = {"model": model, "tavernkit": {"platform": "risu_ai", **self._choices(), **self._quirks}}
        return await self._post("/api/sessions", json=body)

    async def _swipe(self, step: int, *, failed: bool) -> None:
        """One of the arrows: replies that are there are shown, and another is asked for behind the last."""
        last = (await self.messages() or [None])[-1]
        if last is None:
            return
        shown = (last["swipe"] or 0) + step
        if 0 <= shown < len(last["swipes"] or ()):
            path = f"{self.base}/messages/{last['id']}/swipe"
            assert (await self.client.put(path, json={"swipe": shown})).is_success
        elif step > 0:
            answer = await self._turn("swipe")
            assert answer.is_success or answer.status_code == 409 or failed, answer.text  # there is no reply yet

    async def _line(self, operation: Any) -> str:
        return f"{self.base}/messages/{(await self.messages())[operation['index']]['id']}"

    async def _details(self) -> dict[str, Any]:
        return (await self.client.get(self.base)).json()["details"]

    async def _change_details(self, values: Any) -> Any:
        return await self.client.patch(self.base, json={"details": {**await self._details(), **values}})

    async def _change_owner(self, values: Any) -> Any:
        self.raws[0] |= values
        if self.raws[0].get("type") == "group":
            group = (await self.client.get(f"/api/groups/{self.owner}")).json()["content"]
            return await self.client.put(f"/api/groups/{self.owner}", json={**group, **values})
        raw = {key: value for key, value in self.raws[0].items() if key != "chats"}
        card = export_charx(with_kept_fields(raw), lambda _: placeholder_png(), now=0)
        return await self.client.put(f"/api/characters/{self.owner}", files={"file": ("card.charx", card)})


def _json(answer: Any) -> Any:
    return answer.json() if answer.headers.get("content-type") == "application/json" else {}


def _shown(alert: Any) -> str:
    """A text of a trigger or a command; the recording names RisuAI's help."""
    return "<<RISU_COMMAND_HELP>>" if alert["kind"] == "markdown" else alert["text"] or "||".join(alert["options"])


def _opened_before(raw: Any) -> Any:
    """A character as RisuAI keeps it: old lore entries are changed when a character is opened for the first time."""
    for entry in raw.get("globalLore", ()):
        entry.setdefault("bookVersion", 2)
    return raw


_KINDS = ("sessions", "groups", "characters")
_RISU_AI = "?platform=risu_ai"


class RecordedModel(ScriptedModel):
    """Answers what the operation that is replayed was answered."""

    def __init__(self) -> None:
        super().__init__(self._next, name="gpt-4o", repeat_last=True)
        self.replies: list[Any] = []

    def _next(self, _body: object) -> Any:
        return self.replies.pop(0)

    def hear(self, operation: Any) -> int:
        """Get ready for an operation; returns how many requests there were."""
        replies = [_answer(each) for each in operation.get("replies", ["OK."])]
        self.replies = replies * 20
        return len(self.requests)


def _answer(reply: Any) -> Any:
    if isinstance(reply, dict):
        return failure(400, reply["error"])
    return streamed(*reply) if isinstance(reply, list) else reply


def masked(text: str) -> str:
    """A text without ids that are made up, which only comments have."""
    return _ID.sub("<<uuid>>", text) if text.startswith("{{specialcomment") else text
