"""What both kinds of prompt begin with, in the most straightforward way: the turn, the card, the chat, the note."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.silly_tavern.reference.scenes import COUNTER, OTHER, Scene

WHITE_SPACE = " \t\n\r\v\f\u00a0\ufeff\u2028\u2029"
NUMBERS = {"system": 0, "user": 1, "assistant": 2}
NOTE, DEPTH_PROMPT, PERSONA = "2_floating_prompt", "DEPTH_PROMPT", "PERSONA_DESCRIPTION"
START = re.compile("<START>", re.IGNORECASE)


def trim(text: str) -> str:
    return text.strip(WHITE_SPACE)


def role_of(message: Scene) -> str:
    if message["extra"].get("type") == "narrator":
        return "system"
    return "user" if message.get("is_user") else "assistant"


class Turn:
    """The chat and the texts of a turn, after everything that comes before the prompt itself."""

    def __init__(self, scene: Scene, *, send_if_empty: str = "", with_tools: bool = False) -> None:
        self.scene = scene
        self.user: str = scene["user"]
        self.character: str = scene["character"]
        self.with_tools = with_tools
        self.power_user: Scene = scene["power_user"]
        self.members: Sequence[str] = scene["members"]
        self.kind: str = "normal" if self.members and scene["type"] == "regenerate" else scene["type"]
        self.counted = 0
        self.chat: list[Scene] = [{"extra": {}, **message} for message in scene["chat"]]
        self._show_first_message()
        self.quiet_prompt = self.expand(scene["quiet_prompt"])
        self._begin(send_if_empty)
        self._read_card()
        self._show_first_message()
        self.core = self._core()
        self.lore = [each for each in sorted(scene["lore"], key=lambda each: each["order"]) if each["content"]]
        self.registry = self._registry()

    def expand(self, text: str, character: str = "") -> str:
        group = ", ".join(self.members) or self.character
        names = {"char": character or self.character, "user": self.user, "group": group, "charIfNotGroup": group}
        for name, value in names.items():
            text = text.replace(f"{{{{{name}}}}}", value)
        return re.sub(re.escape(COUNTER), self._count, text)

    def with_original(self, text: str, original: str) -> str:
        """Only the first ``{{original}}`` is the text that is replaced."""
        return self.expand(text.replace("{{original}}", original, 1).replace("{{original}}", ""))

    def of_card(self, text: str, character: str = "") -> str:
        """Expand a text as that of a card."""
        text = self.expand(text, character)
        if self.power_user.get("collapse_newlines"):
            text = re.sub("\n+", "\n", text)
        return text.replace("\r", "")

    def _count(self, _found: re.Match[str]) -> str:
        self.counted += 1
        return str(self.counted)

    def _show_first_message(self) -> None:
        if self.chat:
            self.chat[0]["mes"] = self.expand(self.chat[0]["mes"])

    def _begin(self, send_if_empty: str) -> None:
        kind, chat = self.scene["type"], self.chat
        if kind == "regenerate" and chat and not chat[-1].get("is_user"):
            made_with = chat.pop()["extra"].get("gen_id")
            while self.members and made_with is not None and chat:
                newest = chat[-1]
                if newest.get("is_user") or newest.get("is_system") or newest["extra"].get("gen_id") != made_with:
                    break
                chat.pop()
        text = self.scene["message"] if kind in ("normal", "continue") else ""
        usual = self.power_user["user_prompt_bias"]
        inline = " so" if "{{bias" in text else ""
        bias = "" if kind in ("continue", "impersonate") else inline or (not text and self._stored_bias()) or usual
        self.bias, self.forced_by_bias = self.expand(bias), bool(bias) and bias != usual
        if not text and kind == "normal":
            text = trim(send_if_empty)
        if inline:
            text = trim(re.sub(r"\{\{.*?\}\}", "", text))
        if text:
            chat.append({"name": self.user, "is_user": True, "mes": self.expand(text), "extra": {}})
        elif inline:
            chat.append({"name": self.user, "is_system": True, "mes": "", "extra": {}})

    def calls_tools(self, message: Scene) -> bool:
        """Return True if a message is sent as calls of tools."""
        return self.with_tools and "tool_invocations" in message["extra"]

    def _stored_bias(self) -> str:
        for message in reversed(self.chat[:-1] if self.kind == "swipe" else self.chat):
            if message.get("is_system") or role_of(message) != "assistant":
                return message["extra"].get("bias", "")
        return ""

    def _read_card(self) -> None:
        card, metadata = self.scene["card"], self.scene["metadata"]
        prompt, instructions = metadata["system_prompt"] or card["system_prompt"], card["post_history_instructions"]
        self.system_prompt = self._field(prompt) if self.power_user["prefer_character_prompt"] else ""
        self.examples = self._joined("Example Messages", card["mes_example"])
        self.description = self._joined("Description", card["description"])
        self.personality = self._joined("Personality", card["personality"])
        self.persona = self._field(self.scene["persona"]["description"])
        self.scenario = self._joined("Scenario", card["scenario"], metadata["scenario"])
        self.post_history = self._field(instructions) if self.power_user["prefer_character_jailbreak"] else ""
        self.depth_prompt = self._field(card["depth_prompt"]["prompt"])

    def _field(self, text: str) -> str:
        return self.of_card(trim(text))

    @property
    def joins_cards(self) -> bool:
        return bool(self.members) and self.scene["generation_mode"] != "swap"

    def _joined(self, title: str, text: str, of_chat: str = "") -> str:
        """Return a field of the card, in some groups of the cards of all members."""
        if not self.joins_cards or of_chat:
            return self._field(of_chat or text)
        heard = self.members
        if self.scene["disabled_members"] and self.scene["generation_mode"] != "append_disabled":
            heard = [name for name in heard if name != OTHER]
        value = trim(text)
        if value and title == "Example Messages" and not value.startswith("<START>"):
            value = f"<START>\n{value}"
        parts = (self.scene["join_prefix"], value, self.scene["join_suffix"]) if value else ()
        named = [re.sub("<FIELDNAME>", title, part, flags=re.IGNORECASE) for part in parts]
        chunks = ("".join(self.of_card(part, name) for part in named) for name in heard)
        return "\n".join(chunk for chunk in chunks if chunk)

    def _core(self) -> list[Scene]:
        core = [dict(message) for message in self.chat if not message.get("is_system") or self.calls_tools(message)]
        if self.kind == "swipe":
            core = core[:-1]
        for message in core:
            extra = message["extra"]
            files = [file["text"] for file in extra.get("files", ())]
            titled = [extra, *extra.get("media", ())]
            titles = [each["title"] for each in titled if each.get("append_title") and each["title"]]
            text = "".join(f"{file}\n\n" for file in files) + message["mes"]
            message["mes"] = text + "".join(f"\n\n{title}" for title in titles)
        settings, added = self.power_user["reasoning"], 0
        for back, message in enumerate(reversed(core)):
            continued = self.kind == "continue" and back == 0
            if not continued and not (settings["add_to_prompts"] and added < settings["max_additions"]):
                break
            reasoning = message["extra"].get("reasoning", "\u200b")
            if reasoning == "\u200b" or (self.members and message["name"] != self.character):
                continue
            separator = "" if continued and not message["mes"] else "</think>\n"
            message["mes"] = f"<think>{reasoning}{separator}{message['mes']}"
            added += 1
        return core

    def _registry(self) -> dict[str, Scene]:
        scene, metadata, persona = self.scene, self.scene["metadata"], self.scene["persona"]
        found = {each["key"]: dict(each) for each in scene["extension_prompts"]}
        own = scene["card"]["depth_prompt"]
        heard = [name for name in self.members if name != OTHER or not scene["disabled_members"]]
        texts = {f"{DEPTH_PROMPT}_{at}": self.of_card(trim(own["prompt"]), name) for at, name in enumerate(heard)}
        for key, text in (texts if self.joins_cards else {DEPTH_PROMPT: self.depth_prompt}).items():
            found[key] = _at_depth(text, own["depth"], NUMBERS.get(own["role"], 0))
        interval = metadata["note_interval"]
        turns = 1 if interval == 1 else sum(bool(message.get("is_user")) for message in self.chat)
        due = turns > 0 and interval > 0 and turns >= interval and turns % interval == 0
        note, description = (metadata["note_prompt"] if due else ""), persona["description"]
        if due and (self.lore_at(2) or self.lore_at(3)):
            top, bottom = ("\n".join(self.lore_at(position)) for position in (2, 3))
            note = f"{top}\n{note}\n{bottom}"
            note = note.removeprefix("\n").removesuffix("\n")
        if due and description:
            note = {2: f"{description}\n{note}", 3: f"{note}\n{description}"}.get(persona["position"], note)
        found[NOTE] = {key: metadata[f"note_{key}"] for key in ("position", "depth", "role")} | {"value": note}
        if not scene["skip_world_info_registration"]:
            for depth, role in {(each["depth"], each["role"]) for each in self.lore if each["position"] == 4}:
                text = "\n".join(self.lore_at(4, depth=depth, role=role))
                found[f"customDepthWI_{depth}_{role}"] = _at_depth(text, depth, role)
        if description and persona["position"] == 4:
            found[PERSONA] = _at_depth(description, persona["depth"], persona["role"])
        return found

    def lore_at(self, position: int, **place: int) -> list[str]:
        """Return the texts of the entries at a position, in ascending order."""
        wanted = {"position": position, **place}
        return [self.expand(each["content"]) for each in self.lore if wanted.items() <= each.items()]

    def in_chat(self, depth: int, role: int) -> list[str]:
        """Return the registered texts at a depth of the chat."""
        return [
            trim(each["value"])
            for each in self.sorted_registry()
            if each["position"] == 1 and each["value"] and (each["depth"], each["role"]) == (depth, role)
        ]

    def sorted_registry(self) -> list[Scene]:
        return [self.registry[key] for key in sorted(self.registry, key=lambda key: key.encode("utf-16-be"))]

    def depths(self) -> set[int]:
        """Return the depths at which texts are registered."""
        return {each["depth"] for each in self.registry.values() if each["position"] == 1}

    def all_example_blocks(self, heading: str) -> list[str]:
        """Return the blocks of the card with those of lore around them, each in front of or behind all others."""
        blocks = self.example_blocks(self.examples, heading)
        for entry in self.lore:
            own = self.example_blocks(self.of_card(self.expand(entry["content"])), heading)
            blocks = {5: [*own, *blocks], 6: [*blocks, *own]}.get(entry["position"], blocks)
        return blocks

    def example_blocks(self, text: str, heading: str) -> list[str]:
        if text in ("", "<START>"):
            return []
        if not text.startswith("<START>"):
            text = f"<START>\n{trim(text)}"
        return [f"{heading}{trim(part)}\n" for part in START.split(text)[1:]]

    def example_turns(self, block: str) -> list[tuple[bool, str, str]]:
        """Return the turns of a block: if it is the user's, who speaks, and what."""
        turns: list[tuple[bool, str, str]] = []
        lines: list[str] = []
        side, speaker = "", self.character

        def close() -> None:
            name = self.user if side == "user" else speaker
            turns.append((side == "user", name, trim("\n".join(lines).replace(f"{name}:", "", 1))))
            lines.clear()

        for line in block.replace("\r", "").split("\n")[1:]:
            starts: Any = tuple(f"{name}:" for name in (self.character, *self.members))
            new = "user" if line.startswith(f"{self.user}:") else "character" if line.startswith(starts) else side
            if side and new != side:
                close()
            side = new
            if new == "character" and line.startswith(starts) and not line.startswith(f"{self.character}:"):
                speaker = line.split(":")[0]
            lines.append(line)
        if side:
            close()
        return turns


def _at_depth(text: str, depth: int, role: int) -> Scene:
    return {"value": text, "position": 1, "depth": depth, "role": role}
