"""Random scenes: everything that prompts of a card and a chat depend on, with odd values among the usual ones."""

from __future__ import annotations

import random
from typing import Any

from tavernkit.cards import Character, User
from tavernkit.silly_tavern import Group, Persona, Preset, Settings, WorldBook

Scene = dict[str, Any]

OTHER = "Bram"
"""The other member of a group."""
COUNTER = "{{incvar::n}}"
"""A macro that shows when, and how often, a text is expanded."""

_WORDS = ["lamp", "tower", "sea", "the", "old", "bright", "storm", "rope", "keeper", "shore", "night", "海", "éa", "☕"]
_ODD = ["", "  ", "\n", " x \n", "a\r\nb", "{{char}} sits", "{{user}}"]
_BUILT_IN = [prompt.identifier for prompt in Preset.default().prompts]
_USERS = ["Mira", "Mira", "Mira", "Lyra", "M$&", "Mi: ra"]
_CHARACTERS = ["Lyra", "Lyra", "Lyra", "L.*", "Ly ra"]
_KINDS = ["normal", "normal", "continue", "continue", "swipe", "regenerate", "impersonate", "quiet"]


class _Scenes:
    def __init__(self, seed: int, *, counting: bool) -> None:
        self.random = random.Random(seed)
        self.user, self.character = self.one(*_USERS), self.one(*_CHARACTERS)
        self.odd = [*_ODD, f"{COUNTER} k", COUNTER, f"{COUNTER} {COUNTER}"] if counting else _ODD

    def one(self, *values: Any) -> Any:
        return self.random.choice(values)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def text(self, least: int = 1, most: int = 8, *, odd: float = 0.1) -> str:
        if self.maybe(odd):
            return self.random.choice(self.odd)
        return " ".join(self.random.choices(_WORDS, k=self.random.randint(least, most)))

    def counted(self, *values: str) -> str:
        """One of some texts; of scenes that count, also one with the counter."""
        return self.one(*values, *([f"{COUNTER} {values[-1]}"] if len(self.odd) > len(_ODD) else []))

    def line(self, *, in_group: bool) -> Scene:
        extra: Scene = {}
        line: Scene = {"mes": self.text(0, 25), "extra": extra}
        who = self.random.random()
        if who < 0.4:
            line |= {"name": self.user, "is_user": True}
        elif who < 0.9:
            line["name"] = self.one(self.character, self.character, OTHER if in_group else "Zed é", "")
        else:
            line["name"], extra["type"] = "Narr", "narrator"
        if self.maybe(0.1):
            line["is_system"] = True
        if self.maybe(0.15):
            line["force_avatar"] = "x.png"
        if self.maybe(0.2):
            extra["reasoning"] = self.one("thought", "\u200b", "deep thought")
        if self.maybe(0.1):
            extra["bias"] = self.one(" hm", " ")
        if self.maybe(0.1):
            extra["gen_id"] = self.one(1, 2)
        if self.maybe(0.1):
            extra |= {"title": self.one("A title", ""), "append_title": True}
            extra["media"] = [{"type": "image", "title": self.one("A picture", None), "append_title": self.maybe(0.7)}]
        if self.maybe(0.1):
            extra["files"] = [{"url": "/x.txt", "text": text} for text in self.one(["A file."], ["One.", "Two."])]
        if self.maybe(0.1) and not line.get("is_user") and "type" not in extra:
            line["is_system"] = True
            extra["tool_invocations"] = [
                {"id": f"call{number}", "name": "t", "parameters": '{"a":1}', "result": self.one("", "Sunny.")}
                for number in range(self.one(1, 2))
            ]
        return line

    def prompts(self) -> list[Scene]:
        names = [*_BUILT_IN, "c1", "c2", "c3", "c4", "summary", "bias", "impersonate", "ext_a"]
        found: list[Scene] = []
        for identifier in self.random.sample(names, self.random.randint(0, 12)):
            prompt: Scene = {"identifier": identifier, "name": identifier, "content": self.text()}
            if self.maybe(0.75):
                prompt["system_prompt"] = self.one(False, False, True)
            if role := self.one("system", "system", "user", "assistant", None):
                prompt["role"] = role
            if self.maybe(0.4):
                prompt["injection_position"] = self.one(0, 1, 1)
                prompt["injection_depth"] = self.one(0, 1, 2, 4, 50, 10_000, 10_001, -1, 1.5)
                if self.maybe(0.5):
                    prompt["injection_order"] = self.one(100, 50, 150, 0, 99.5)
            if self.maybe(0.2):
                prompt["injection_trigger"] = self.one(["normal"], ["continue", "swipe"], ["impersonate", "quiet"], [])
            if self.maybe(0.2):
                prompt["forbid_overrides"] = True
            found.append(prompt)
        return [*found, {**found[0], "content": "not the first"}] if found and self.maybe(0.1) else found

    def order(self) -> list[Scene]:
        if self.maybe(0.3):
            return []
        names = [*_BUILT_IN, "c1", "c2", "c3", "c4", "summary", "bias", "impersonate", "ext_a", "nothing"]
        listed = self.random.sample(names, self.random.randint(3, len(names)))
        if self.maybe(0.2):
            listed.append(self.random.choice(listed))
        entries = [{"identifier": each, "enabled": self.maybe(0.8)} for each in listed]
        unused: Scene = {"character_id": 100000, "order": [{"identifier": "main", "enabled": False}]}
        used: Scene = {"character_id": self.one(100001, "100001"), "order": entries}
        return [unused, used] if self.maybe(0.3) else [used]

    def preset(self, context: int, response: int) -> Scene:
        return {
            "openai_model": "gpt-4",
            "openai_max_context": context,
            "openai_max_tokens": response,
            "prompts": self.prompts(),
            "prompt_order": self.order(),
            "names_behavior": self.one(0, 0, -1, 1, 2),
            "send_if_empty": self.one("", "", "go on", " go ", " "),
            "impersonation_prompt": self.text(1, 4),
            "new_chat_prompt": self.counted("", "[Start]"),
            "new_group_chat_prompt": self.one("[G {{group}}]", ""),
            "new_example_chat_prompt": self.counted("", "[Ex]"),
            "continue_nudge_prompt": self.counted("[Continue: {{lastChatMessage}}]", "", "[go]"),
            "group_nudge_prompt": self.counted("", "[as {{char}}]"),
            "scenario_format": self.one("{{scenario}}", "S: {{scenario}}", ""),
            "wi_format": self.one("{0}", "{0}", "[{0}] {1}", " ", ""),
            "personality_format": self.counted("{{personality}}", "", "fixed"),
            "continue_prefill": self.maybe(0.4),
            "continue_postfix": self.one(" ", "", "\n"),
            "squash_system_messages": self.maybe(0.3),
            "function_calling": self.maybe(0.2),
        }

    def examples(self) -> str:
        blocks: list[str] = []
        for _ in range(self.random.randint(0, 3)):
            lines = [
                f"{self.one(self.user, self.character, OTHER, 'Nobody')}: {self.text(0, 6)}"
                if self.maybe(0.85)
                else self.text()
                for _ in range(self.random.randint(0, 4))
            ]
            blocks.append(self.one("<START>\n", "<START>", "<start>\n") + "\n".join(lines))
        return "\n".join(blocks)

    def registered(self) -> list[Scene]:
        keys = ["1_memory", "4_vectors_data_bank", "chromadb", "ext a", "zz", "9", "10", "c1", "B", "é", "main"]
        return [
            {
                "key": key,
                "value": self.text(),
                "position": self.one(-1, 0, 0, 1, 1, 2, 2),
                "depth": self.one(0, 1, 3, 4, 20_000),
                "role": self.one(0, 0, 1, 2, 7),
            }
            for key in self.random.sample(keys, self.random.randint(0, 4))
        ]

    def lore(self) -> list[Scene]:
        """Entries that are always active, whatever the chat and the budget; no two have the same order."""
        count = self.one(0, 0, self.random.randint(1, 6))
        return [
            {
                "uid": uid,
                "key": [],
                "constant": True,
                "ignoreBudget": True,
                "preventRecursion": True,
                "content": self.text().replace(COUNTER, "z"),
                "order": order,
                "position": self.one(0, 1, 2, 3, 4, 5, 6),
                "depth": self.one(0, 1, 4),
                "role": self.one(0, 1, 2),
            }
            for uid, order in enumerate(self.random.sample(range(200), count))
        ]

    def card(self) -> Scene:
        # The macros of these fields read the card again, so counters in them would not count by this order.
        personality, scenario = (self.text().replace(COUNTER, "z") for _ in range(2))
        return {
            "description": self.text(),
            "personality": personality,
            "scenario": scenario,
            "mes_example": self.examples(),
            "system_prompt": self.one("", "", "Own {{original}}!", "x {{original}} {{original}}"),
            "post_history_instructions": self.one("", "PH {{original}}"),
            "depth_prompt": {
                "prompt": self.counted("", "deep {{char}}"),
                "depth": self.one(0, 2, 4),
                "role": self.one("system", "user", "assistant", "odd"),
            },
        }

    def scene(self) -> Scene:
        in_group = self.maybe(0.25)
        context, response = self.one(8000, 8000, self.random.randint(20, 600)), self.one(0, 10)
        chat = [self.line(in_group=in_group) for _ in range(self.random.randint(0, 8))]
        if chat and in_group:  # there is no speaker yet when a group's first message is shown
            chat[0]["mes"] = "Welcome."
        counted, self.odd = self.odd, _ODD if in_group else self.odd  # the order of members is not that of the card
        card = self.card()
        self.odd = counted
        mode = self.one("swap", "swap", "append", "append_disabled")
        return {
            "user": self.user,
            "character": self.character,
            "generation_mode": mode,
            "disabled_members": [f"{OTHER}.png"] if self.maybe(0.4) else [],
            "join_prefix": self.one("", "<FieldName> of {{char}}: "),
            "join_suffix": self.one("", "\n"),
            "context": context,
            "response": response,
            "preset": self.preset(context, response),
            "type": self.one(*_KINDS),
            "members": (self.character, OTHER) if in_group else (),
            "chat": chat,
            "message": self.one("", "", self.text(odd=0), self.text(odd=0), '{{bias "so"}}' + self.one("", " Hi.")),
            "lore": self.lore(),
            "skip_world_info_registration": self.maybe(0.1),
            "quiet_prompt": self.one("", "", "", self.counted("Tell.")),
            "power_user": {
                "user_prompt_bias": self.one("", "", "Start "),
                "collapse_newlines": self.maybe(0.2),
                "prefer_character_prompt": self.maybe(0.8),
                "prefer_character_jailbreak": self.maybe(0.8),
                "pin_examples": self.maybe(0.3),
                "strip_examples": self.maybe(0.1),
                "reasoning": {"add_to_prompts": self.maybe(0.4), "max_additions": self.one(0, 1, 2)},
            },
            "card": card,
            "metadata": {
                "note_prompt": self.counted("", "  ", "note"),
                "note_interval": self.one(0, 1, 1, 2),
                "note_position": self.one(0, 1, 2),
                "note_depth": self.one(0, 1, 4),
                "note_role": self.one(0, 1, 2),
                "scenario": self.one("", "", "other place"),
                "system_prompt": self.one("", "", "meta {{original}}"),
            },
            "persona": {
                "description": self.counted("", "brave", " brave "),
                "position": self.one(0, 0, 2, 3, 4, 9),
                "depth": self.one(0, 2),
                "role": self.one(0, 1, 2),
            },
            "extension_prompts": self.registered(),
            "tools": [{"name": "t", "description": "d", "parameters": {"type": "object"}}] if self.maybe(0.5) else [],
        }

    def sequence(self, *values: str) -> str:
        return self.one("", *values)

    def text_scene(self) -> Scene:
        parameters = ["system", "description", "personality", "scenario", "persona", "mesExamples"]
        parameters += ["wiBefore", "loreAfter", "anchorBefore", "anchorAfter"]
        parameters = self.random.sample(parameters, self.random.randint(0, len(parameters)))
        end = self.one("", "", "end", "end \n")
        scene, sequence = self.scene(), self.sequence
        scene["power_user"] |= {
            "token_padding": self.one(0, 10, 64),
            "tokenizer": 0,
            "user_prompt_bias": self.one("", "", " Sure", "Sure "),
        }
        return scene | {
            "context": self.one(8000, self.random.randint(30, 200), self.random.randint(30, 500)),
            "metadata": scene["metadata"]
            | {
                "cfg_guidance_scale": self.one(None, None, 1, 1.5),
                "cfg_positive_prompt": self.one("", "Good {{char}}"),
                "cfg_negative_prompt": self.one("", "Bad {{user}}"),
                "cfg_prompt_insertion_depth": self.one(None, 0, 1, 3, 99),
            },
            "story": parameters,
            "story_end": end,
            "quiet_to_loud": self.maybe(0.3),
            "quiet_name": self.one("", "Bob"),
            "force_name2": self.maybe(0.3),
            "sysprompt": {
                "enabled": self.maybe(0.7),
                "content": self.one("", "Sys {{char}}."),
                "post_history": self.one("", "", " ", "Post."),
            },
            "context_template": {
                "story_string": "".join(f"{{{{#if {name}}}}}{{{{{name}}}}}\n{{{{/if}}}}" for name in parameters) + end,
                "chat_start": sequence("***"),
                "example_separator": sequence("***", "ex {{char}}"),
                "use_stop_strings": self.maybe(0.5),
                "names_as_stop_strings": self.maybe(0.7),
                "story_string_position": self.one(0, 0, 0, 1, 2, -1),
                "story_string_depth": self.one(0, 1, 3, 99),
                "story_string_role": self.one(0, 1, 2),
                "always_force_name2": self.maybe(0.6),
                "trim_sentences": False,
                "single_line": self.maybe(0.2),
            },
            "instruct": {
                "enabled": self.maybe(0.6),
                "input_sequence": sequence("### In:", "<|u|>{{name}}\n", "[INST] "),
                "input_suffix": sequence("</s>", "\n"),
                "output_sequence": sequence("### Out:", "<|a|> ", "<|a|>{{name}}"),
                "output_suffix": sequence("</s>"),
                "system_sequence": sequence("<|s|>"),
                "system_suffix": sequence("</s>"),
                "first_input_sequence": sequence("FI"),
                "last_input_sequence": sequence("LI"),
                "first_output_sequence": sequence("FO"),
                "last_output_sequence": sequence("LO", "LO "),
                "last_system_sequence": sequence("LS"),
                "story_string_prefix": sequence("PRE {{name}}"),
                "story_string_suffix": sequence("SUF"),
                "stop_sequence": sequence("STOP", "S\nT"),
                "user_alignment_message": sequence("Align {{char}}"),
                "wrap": self.maybe(0.5),
                "macro": self.maybe(0.7),
                "names_behavior": self.one("none", "force", "always"),
                "skip_examples": self.maybe(0.2),
                "system_same_as_user": self.maybe(0.3),
                "sequences_as_stop_strings": self.maybe(0.6),
            },
        }


def chat_scene(seed: int) -> Scene:
    """Make a scene for chat completion."""
    return _Scenes(seed, counting=True).scene()


def text_scene(seed: int) -> Scene:
    """Make a scene for text completion."""
    return _Scenes(seed, counting=False).text_scene()


def inputs(scene: Scene) -> dict[str, Any]:
    """Return the builder's inputs of a scene."""
    fields = {key: value for key, value in scene["card"].items() if key != "depth_prompt"}
    names, extensions = (scene["character"], OTHER), {"depth_prompt": scene["card"]["depth_prompt"]}
    cards = {f"{name}.png": Character(name=name, extensions=extensions, **fields) for name in names}
    found: dict[str, Any] = {
        "user": User(name=scene["user"]),
        "persona": Persona(**scene["persona"]),
        "history": scene["chat"],
        "message": scene["message"],
        "generation_type": scene["type"],
        "chat_metadata": scene["metadata"],
        "extension_prompts": scene["extension_prompts"],
        "quiet_prompt": scene["quiet_prompt"],
        "books": [WorldBook.from_json({"entries": {str(each["uid"]): each for each in scene["lore"]}}, name="lore")],
        "skip_world_info_registration": scene["skip_world_info_registration"],
        "warn": None,
    }
    if scene["members"]:
        settings = ("generation_mode", "disabled_members", "join_prefix", "join_suffix")
        group = Group(members=list(cards), **{key: scene[key] for key in settings})
        found |= {"group": group, "members": cards, "speaker": scene["character"]}
    else:
        found["character"] = cards[f"{scene['character']}.png"]
    return found


def chat_inputs(scene: Scene) -> dict[str, Any]:
    """Return the builder's inputs of a scene for chat completion."""
    return {
        **inputs(scene),
        "preset": Preset.from_json(scene["preset"], warn=_ignore),
        "settings": Settings.from_json({"power_user": scene["power_user"]}, warn=_ignore),
        "tools": scene["tools"],
        "on_overflow": "return",
    }


def text_inputs(scene: Scene) -> dict[str, Any]:
    """Return the builder's inputs of a scene for text completion."""
    template = scene["context_template"]
    power_user = {
        **scene["power_user"],
        **{key: scene[key] for key in ("instruct", "sysprompt")},
        "context": template,
        **{key: template[key] for key in ("always_force_name2", "trim_sentences", "single_line")},
    }
    stored = {"power_user": power_user, "max_context": scene["context"], "amount_gen": scene["response"]}
    return {
        **inputs(scene),
        "dialect": "text",
        "settings": Settings.from_json(stored, warn=_ignore),
        **{key: scene[key] for key in ("quiet_to_loud", "quiet_name", "force_name2")},
    }


def _ignore(_message: str) -> None:
    """Odd values of a scene are on purpose."""
