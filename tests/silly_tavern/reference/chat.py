"""Chat completion in the most straightforward way, by the rules alone."""

from __future__ import annotations

import json
import re
from typing import Any

from tavernkit.silly_tavern import Preset
from tavernkit.silly_tavern._token_counting.messages import counting_rule, new_counter
from tests.silly_tavern.reference.scenes import Scene
from tests.silly_tavern.reference.turn import NOTE, Turn, role_of, trim

ROLES = ("system", "user", "assistant")
FIRST = ("worldInfoBefore", "main", "worldInfoAfter", "charDescription", "charPersonality", "scenario")
NAMED = {
    "1_memory": "summary",
    NOTE: "authorsNote",
    "4_vectors_data_bank": "vectorsDataBank",
    "chromadb": "smartContext",
}
ALONE = ("newMainChat", "newChat", "groupNudge")
_DEFAULT = Preset.default()
_COUNTER = new_counter(counting_rule("openai", "gpt-4"), None, lambda _message: None)


def tokens(role: str, content: str, name: str | None = None) -> int:
    return _COUNTER.message(role, content, name) if content or name else 0


class DoesNotFitError(Exception):
    """Something that must be there does not fit."""


class ChatReference:
    """Builds the messages of a scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.preset: Scene = scene["preset"]
        tools = self.preset["function_calling"]
        self.turn = Turn(scene, send_if_empty=self.preset["send_if_empty"], with_tools=tools)
        self.kind = self.turn.kind
        self.budget: int = scene["context"] - scene["response"] - 3
        self.prompts: list[Scene] = []
        self.slots: dict[int, list[Scene]] = {}

    def build(self) -> tuple[list[Scene], int, bool]:
        """Return the messages, what is left of the budget, and if something that must be there did not fit."""
        blocks = self.turn.all_example_blocks("<START>\n")
        self.examples = [] if self.turn.power_user["strip_examples"] else [self._example(block) for block in blocks]
        self._collect()
        self._merge_all()
        self._override()
        overflow = False
        try:
            self._assemble()
        except DoesNotFitError:
            overflow = True
        messages = [message for slot in sorted(self.slots) for message in self.slots[slot]]
        if self.preset["squash_system_messages"]:
            messages = _squashed(messages)
        sent = [message for message in messages if message["content"] or message.get("tool_calls")]
        fields = ("role", "content", "name", "tool_calls", "tool_call_id")
        return [{key: each[key] for key in fields if each.get(key)} for each in sent], self.budget, overflow

    def _example(self, block: str) -> list[tuple[str, str]]:
        return [
            ("example_user" if own else "example_assistant", f"{name}: {text}" if self.turn.members else text)
            for own, name, text in self.turn.example_turns(block)
        ]

    def _collect(self) -> None:
        listed = [*self.preset["prompts"]]
        known = {prompt["identifier"] for prompt in listed}
        for prompt in _DEFAULT.prompts:
            if prompt.identifier not in known:
                listed.append({key: value for key, value in prompt.to_json().items() if value is not None})
        chosen = next((each for each in self.preset["prompt_order"] if str(each["character_id"]) == "100001"), None)
        usual = [{"identifier": each.identifier, "enabled": each.enabled} for each in _DEFAULT.effective_order]
        self.order: list[Scene] = (chosen and chosen["order"]) or usual
        for entry in self.order:
            prompt = next((each for each in listed if each["identifier"] == entry["identifier"]), None)
            if prompt is None:
                continue
            triggers = prompt.get("injection_trigger") or [self.kind]
            if entry["enabled"] and self.kind in triggers:
                self.prompts.append({**prompt, "content": self.turn.expand(prompt.get("content") or "")})
            elif entry["identifier"] == "main":
                self.prompts.append({**prompt, "content": ""})

    def _find(self, identifier: str) -> int:
        return next((at for at, each in enumerate(self.prompts) if each["identifier"] == identifier), -1)

    def _switched_off(self, identifier: str) -> bool:
        entry = next((each for each in self.order if each["identifier"] == identifier), None)
        return entry is not None and not entry["enabled"]

    def _merge(self, identifier: str, content: str, role: str = "system", **more: Any) -> None:
        prompt = {"identifier": identifier, "content": self.turn.expand(content), "role": role, **more}
        at = self._find(identifier)
        if at < 0:
            self.prompts.append(prompt)
            return
        old = self.prompts[at]
        for key in ("injection_position", "injection_depth", "injection_order", "role"):
            if old.get(key) is not None:
                prompt[key] = old[key]
        self.prompts[at] = prompt

    def _merge_all(self) -> None:
        turn, preset = self.turn, self.preset
        own = {
            "worldInfoBefore": self._lore(0),
            "worldInfoAfter": self._lore(1),
            "charDescription": turn.description,
            "charPersonality": self._formatted("personality", turn.personality),
            "scenario": self._formatted("scenario", turn.scenario),
            "impersonate": turn.expand(preset["impersonation_prompt"]),
            "quietPrompt": turn.quiet_prompt,
            "groupNudge": turn.expand(preset["group_nudge_prompt"]),
            "bias": turn.bias,
        }
        for identifier, content in own.items():
            self._merge(identifier, content, "assistant" if identifier == "bias" else "system")
        for key, identifier in NAMED.items():
            if key in turn.registry and turn.registry[key]["value"]:
                role = "system" if key == "chromadb" else _role(turn.registry[key])
                self._merge(identifier, turn.registry[key]["value"], role, side=_side(turn.registry[key]))
        persona = self.scene["persona"]
        if persona["description"] and persona["position"] == 0:
            self._merge("personaDescription", persona["description"])
        numbers = sorted((key for key in turn.registry if key.isdigit()), key=int)
        for key in [*numbers, *(key for key in turn.registry if not key.isdigit())]:
            found = turn.registry[key]
            if key not in NAMED and found["value"] and _side(found):
                identifier = re.sub(r"[^A-Za-z0-9_]", "_", key)
                self._merge(identifier, found["value"], _role(found), side=_side(found), extension=True)

    def _lore(self, position: int) -> str:
        text, wi_format = "\n".join(self.turn.lore_at(position)), self.preset["wi_format"]
        return wi_format.replace("{0}", text) if text and trim(wi_format) else text

    def _formatted(self, name: str, text: str) -> str:
        template = self.preset[f"{name}_format"]
        return self.turn.expand(template).replace(f"{{{{{name}}}}}", text) if text and template else text

    def _override(self) -> None:
        for identifier, text in (("main", self.turn.system_prompt), ("jailbreak", self.turn.post_history)):
            at = self._find(identifier)
            if text and at >= 0 and not self.prompts[at].get("forbid_overrides") and not self._switched_off(identifier):
                content = self.turn.with_original(text, self.prompts[at]["content"])
                self.prompts[at] = {**self.prompts[at], "content": content}

    def _assemble(self) -> None:
        for identifier in (*FIRST, "personaDescription"):
            self._place(identifier)
        control = [self._message("impersonate")] if self.kind == "impersonate" else []
        control += [self._message("quietPrompt")] if self.turn.quiet_prompt else []
        self.budget -= _sum(control)
        for identifier in ("nsfw", "jailbreak"):
            self._place(identifier)
        for prompt in self.prompts:
            if prompt.get("system_prompt") is False and not _in_chat(prompt):
                self._place(prompt["identifier"])
        self._place("enhanceDefinitions")
        if trim(self.turn.bias):
            self._place("bias")
        in_chat = [prompt for prompt in self.prompts if _in_chat(prompt)]
        self._put_around_main(in_chat)
        if self.preset["function_calling"] and self.kind not in ("impersonate", "quiet", "continue"):
            self.budget -= tokens("user", self._tools())
        history = [self._chat_message(message) for message in self.turn.core]
        if self.kind == "continue" and self.preset["continue_prefill"] and history:
            prefill = history.pop()
            prefill["tokens"] = tokens(prefill["role"], prefill["content"], prefill["name"])
            control.append(prefill)
            self.budget -= _sum([prefill])
        self._inject(history, in_chat)
        fills = (self._fill_history, self._fill_examples)
        for fill in reversed(fills) if self.turn.power_user["pin_examples"] else fills:
            fill(history)
        self.budget += _sum(control)
        if control:
            self._place_at_end(control)

    def _pay(self, price: int) -> None:
        if self.budget < price:
            raise DoesNotFitError
        self.budget -= price

    def _message(self, identifier: str) -> Scene:
        prompt = self.prompts[self._find(identifier)]
        return _line(identifier, prompt.get("role") or "system", prompt["content"])

    def _place(self, identifier: str) -> None:
        at = self._find(identifier)
        if at < 0 or (identifier != "main" and self._switched_off(identifier)) or _in_chat(self.prompts[at]):
            return
        message = self._message(identifier)
        self._pay(message["tokens"])
        self.slots[at] = [message]

    def _place_at_end(self, messages: list[Scene]) -> None:
        self._pay(_sum(messages))
        self.slots[max(self.slots, default=-1) + 1] = messages

    def _put_around_main(self, in_chat: list[Scene]) -> None:
        named = [self.prompts[self._find(each)] for each in NAMED.values() if self._find(each) >= 0]
        place = self._find("main")
        for prompt in [*named, *(each for each in self.prompts if each.get("extension"))]:
            if not prompt.get("side") or place < 0:
                continue
            main = self.prompts[place]
            if _in_chat(main):
                at = next(at for at, each in enumerate(in_chat) if each["identifier"] == "main")
                added = {**main, "identifier": prompt["identifier"], "content": prompt["content"]}
                in_chat.insert(at if prompt["side"] == "start" else at + 1, added)
                continue
            message = self._message(prompt["identifier"])
            self._pay(message["tokens"])
            if message["content"]:
                self.slots[place].insert(0 if prompt["side"] == "start" else len(self.slots[place]), message)

    def _tools(self) -> str:
        tools = [{"type": "function", "function": tool} for tool in self.scene["tools"]]
        return json.dumps({"tools": tools, "tool_choice": "auto"} if tools else {}, separators=(",", ":"))

    def _chat_message(self, message: Scene) -> Scene:
        role, name, behavior = role_of(message), message["name"], self.preset["names_behavior"]
        named = behavior == 2 and role != "system"
        if behavior == 0 and name != self.turn.user:
            named = bool(self.turn.members) or ("force_avatar" in message and role != "system")
        content = (f"{name}: " if named else "") + message["mes"]
        sent_name = re.sub(r"[^A-Za-z0-9_]", "_", name)[:64] if behavior == 1 and name else None
        made = {"id": "chat", "role": role, "content": content.replace("\r", ""), "name": sent_name}
        if self.turn.calls_tools(message):
            made["calls"] = message["extra"]["tool_invocations"]
        return made

    def _inject(self, history: list[Scene], in_chat: list[Scene]) -> None:
        own = [prompt for prompt in in_chat if type(prompt.get("injection_depth")) is int and prompt["content"]]
        newest_first, inserted = history[::-1], 0
        for depth in sorted({prompt["injection_depth"] for prompt in own} | self.turn.depths()):
            if not 0 <= depth <= 10_000:
                continue
            here = [prompt for prompt in own if prompt["injection_depth"] == depth]
            orders = {100} | {prompt.get("injection_order", 100) for prompt in here}
            found: list[Scene] = []
            for order in sorted(orders, reverse=True):
                for number, role in enumerate(ROLES):
                    texts = [each["content"] for each in here if _is_for(each, order, role)]
                    registered = self.turn.in_chat(depth, number) if order == 100 else []
                    parts = ["\n".join(texts), self.turn.expand("\n".join(registered))]
                    content = "\n".join(trim(part) for part in parts if part)
                    if content:
                        found.append({"id": "injected", "role": role, "content": content, "name": None})
            newest_first[depth + inserted : depth + inserted] = found
            inserted += len(found)
        history[:] = newest_first[::-1]

    def _fill_history(self, history: list[Scene]) -> None:
        place, preset, expand = self._find("chatHistory"), self.preset, self.turn.expand
        if place < 0:
            return
        self._pay(0)
        filled: list[Scene] = []
        self.slots[place] = filled
        in_group = bool(self.turn.members)
        start = preset["new_group_chat_prompt"] if in_group else preset["new_chat_prompt"]
        new_chat = _line("newMainChat", "system", expand(start))
        self.budget -= new_chat["tokens"]
        nudge = [self._message("groupNudge")] if in_group and self.kind != "impersonate" else []
        self.budget -= _sum(nudge)
        continued = self._continued(history)
        self.budget -= _sum(continued)
        replacement = _line("emptyUserMessageReplacement", "user", preset["send_if_empty"])
        if history and history[-1]["role"] == "assistant" and self.budget >= replacement["tokens"]:
            self.budget -= replacement["tokens"]
            filled.append(replacement)
        kept: list[Scene] = []
        for message in reversed(history):
            if "calls" in message:
                made = _tool_lines(message)
            else:
                made = [_line(message["id"], message["role"], expand(message["content"]), message["name"])]
            if self.budget < sum(line["tokens"] for line in made):
                break
            self.budget -= _sum(made)
            kept[:0] = [line for line in made if line["content"] or "tool_calls" in line]
        filled[:0] = kept
        for lines, at_start in (([new_chat], True), (nudge, False)):
            self.budget += _sum(lines)
            if lines:
                self._pay(_sum(lines))
            filled[:] = [*lines, *filled] if at_start else [*filled, *lines]
        self.budget += _sum(continued)
        if continued:
            self._place_at_end(continued)

    def _continued(self, history: list[Scene]) -> list[Scene]:
        text = (self.turn.core[-1]["mes"] if self.turn.core else "") + self.preset["continue_postfix"]
        if self.kind != "continue" or self.preset["continue_prefill"] or not text:
            return []
        expand = self.turn.expand
        asked = expand(expand(self.preset["continue_nudge_prompt"]).replace("{{lastChatMessage}}", trim(text)))
        lines = [_line("continueNudge", "system", asked)]
        newest = next((at for at in range(len(history) - 1, -1, -1) if history[at]["id"] == "chat"), None)
        if newest is not None:
            message = history.pop(newest)
            lines.insert(0, _line(None, message["role"], expand(message["content"])))
        return lines

    def _fill_examples(self, _history: list[Scene]) -> None:
        place = self._find("dialogueExamples")
        if place < 0:
            return
        self._pay(0)
        self.slots[place] = []
        header = self.turn.expand(self.preset["new_example_chat_prompt"])
        for block in self.examples:
            lines = [_line("newChat", "system", header)]
            lines += [_line("example", "system", content, name) for name, content in block]
            if self.budget < sum(line["tokens"] for line in lines):
                break
            self.budget -= _sum(lines)
            self.slots[place] += lines


def _line(identifier: str | None, role: str, content: str, name: str | None = None) -> Scene:
    return {
        "id": identifier,
        "role": role,
        "content": content,
        "name": name,
        "tokens": tokens(role, content, name),
    }


def _sum(messages: list[Scene]) -> int:
    """What messages cost; an empty one is not sent."""
    return sum(message["tokens"] for message in messages if message["content"] or "tool_calls" in message)


def _tool_lines(message: Scene) -> list[Scene]:
    """Return the calls of a message and their results."""
    calls = [
        {"id": call["id"], "type": "function", "function": {"arguments": call["parameters"], "name": call["name"]}}
        for call in message["calls"]
    ]
    price = _COUNTER.texts([message["role"], json.dumps(calls, separators=(",", ":"))])
    asked = {**_line("calls", message["role"], ""), "tool_calls": calls, "tokens": price}
    results = [
        {**_line("result", "tool", call["result"] or "[No content]"), "tool_call_id": call["id"]}
        for call in message["calls"]
    ]
    return [asked, *results]


def _in_chat(prompt: Scene) -> bool:
    return prompt.get("injection_position") == 1


def _is_for(prompt: Scene, order: float, role: str) -> bool:
    return prompt.get("injection_order", 100) == order and prompt.get("role") == role


def _side(registered: Scene) -> str | None:
    return {0: "end", 2: "start"}.get(registered["position"])


def _role(registered: Scene) -> str:
    return ROLES[registered["role"]] if registered["role"] in (0, 1, 2) else "system"


def _squashed(messages: list[Scene]) -> list[Scene]:
    found: list[Scene] = []
    for message in messages:
        if message["role"] == "system" and not message["content"]:
            continue
        if found and _squashable(found[-1]) and _squashable(message):
            found[-1] = {**found[-1], "content": f"{found[-1]['content']}\n{message['content']}"}
        else:
            found.append(message)
    return found


def _squashable(message: Scene) -> bool:
    return message["role"] == "system" and not message["name"] and message["id"] not in ALONE
