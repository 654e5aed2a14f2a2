"""Text completion in the most straightforward way, by the rules alone. Tokens are those of no tokenizer."""

from __future__ import annotations

import math
import re

from tests.silly_tavern.reference.scenes import Scene
from tests.silly_tavern.reference.turn import NUMBERS, WHITE_SPACE, Turn, role_of, trim

FIRST, LAST = 1, 2


def tokens(text: str) -> int:
    return math.ceil(len(text.encode()) / 3.35)


def with_name(text: str, name: str) -> str:
    """Put a name into a sequence, in which ``$&`` is what it replaces."""
    replaced = re.compile(r"\{\{name\}\}", re.IGNORECASE)
    return replaced.sub(lambda found: (name or "System").replace("$&", found.group()), text)


class TextReference:
    """Builds the text of a scene, and its stop strings."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.turn = Turn(scene)
        self.user, self.character = self.turn.user, self.turn.character
        self.kind = self.turn.kind
        self.continuing = self.kind == "continue"
        self.template: Scene = scene["context_template"]
        self.instruct: Scene = scene["instruct"]
        self.system: Scene = scene["sysprompt"]
        self.power_user: Scene = scene["power_user"]
        self.in_instruct: bool = self.instruct["enabled"]
        self.separator = "\n" if self.in_instruct and self.instruct["wrap"] else ""
        self.limit: int = scene["context"] - scene["response"]
        self._read_guidance()
        always = self.turn.forced_by_bias or self.template["always_force_name2"] or scene["force_name2"]
        self.force_name = always and self.kind != "impersonate"

    def _read_guidance(self) -> None:
        metadata = self.scene["metadata"]
        self.guided = metadata["cfg_guidance_scale"] not in (None, 1)
        self.positive, self.negative = (
            self.turn.expand(metadata[f"cfg_{kind}_prompt"]) if self.guided else "" for kind in ("positive", "negative")
        )
        depth = metadata["cfg_prompt_insertion_depth"]
        self.guidance_depth = 1 if depth is None else depth
        self.limit -= max(tokens(self.positive), tokens(self.negative))

    def build(self) -> tuple[str, str, list[str]]:
        """Return the prompt, the negative one and the stop strings."""
        separator = self.template["example_separator"]
        self.heading = f"{self.turn.expand(separator)}\n" if separator else ""
        blocks = self.turn.all_example_blocks("<START>\n" if self.in_instruct else self.heading)
        self.examples = self._written_examples(blocks) if self.in_instruct else blocks
        self._write_story()
        if self.power_user["strip_examples"]:
            self.examples = []
        self._write_chat()
        history = self._assemble()
        negative = self._finished([*history], self.negative) if self.guided else ""
        return self._finished([*history], self.positive), negative, self._stop_strings()

    def _message(self, message: Scene, flag: int = 0) -> tuple[str, str]:
        """Write a message in instruct mode; also without what follows its text."""
        instruct, behavior, name = self.instruct, self.instruct["names_behavior"], message["name"]
        named = behavior == "always"
        if behavior == "force":
            named = bool(self.turn.members or message["forced"]) and name != self.user
        side = "input" if message["is_user"] else "output"
        special = {FIRST: f"first_{side}_sequence", LAST: f"last_{side}_sequence"}.get(flag)
        if message["narrator"]:
            named, special, side = False, None, "input" if instruct["system_same_as_user"] else "system"
        prefix = (instruct[special] if special else "") or instruct[f"{side}_sequence"]
        suffix = instruct[f"{side}_suffix"]
        if instruct["macro"]:
            prefix, suffix = (with_name(self.turn.expand(each), name) for each in (prefix, suffix))
        suffix = suffix or self.separator
        body = (f"{name}: " if named and name else "") + message["text"] + suffix
        text = self.separator.join(part for part in (prefix, body) if part)
        return text, text[: len(text) - len(suffix)]

    def _reply_line(self) -> str:
        instruct, impersonating = self.instruct, self.kind == "impersonate"
        quiet = bool(self.turn.quiet_prompt) and self.kind == "quiet"
        neutral = quiet and not self.scene["quiet_to_loud"]
        name: str = self.user if impersonating else self.character
        if neutral and not impersonating:
            name = self.scene["quiet_name"] or "System"
        behavior = instruct["names_behavior"]
        named = (behavior == "always" or (behavior == "force" and bool(self.turn.members))) and not neutral
        last, usual = instruct["last_output_sequence"], instruct["output_sequence"]
        sequence: str = last or usual
        if impersonating:
            sequence = instruct["last_input_sequence"] or instruct["input_sequence"]
        elif neutral:
            sequence = instruct["last_system_sequence"] or usual
        spaced = named and last and usual and sequence == last
        filler = usual[-1] if spaced and usual[-1] in WHITE_SPACE and last[-1] not in WHITE_SPACE else ""
        if instruct["macro"]:
            sequence = with_name(self.turn.expand(sequence), name)
        text = self.separator + sequence + (f"{self.separator}{filler}{name}:" if named else "")
        if quiet:
            text = text.removeprefix(self.separator)
        bias = self.turn.bias
        if bias and not impersonating:
            text += bias if named else self.separator + bias.lstrip(WHITE_SPACE)
        return (text.rstrip(WHITE_SPACE) if instruct["wrap"] else text) + ("" if named else self.separator)

    def _written_examples(self, blocks: list[str]) -> list[str]:
        written = [] if self.instruct["skip_examples"] else [self._written_example(block) for block in blocks]
        if not any(written):
            return [re.sub("<START>\n", self.heading, block, count=1, flags=re.IGNORECASE) for block in blocks]
        return [piece for pieces in written if pieces for piece in (*filter(None, [self.heading]), *pieces)]

    def _written_example(self, block: str) -> list[str]:
        instruct, behavior, pieces = self.instruct, self.instruct["names_behavior"], list[str]()
        for own, name, text in self.turn.example_turns(block):
            named = behavior == "always" or (behavior == "force" and (own or bool(self.turn.members)))
            side = "input" if own else "output"
            prefix, suffix = instruct[f"{side}_sequence"], instruct[f"{side}_suffix"]
            if instruct["macro"]:
                speaker = self.user if own else self.character
                prefix, suffix = (with_name(self.turn.expand(each), speaker) for each in (prefix, suffix))
                suffix = suffix or self.separator
            written = (f"{name}: " if named else "") + text + suffix
            pieces.append(prefix + self.separator + written if prefix else written)
        return pieces

    def _write_story(self) -> None:
        turn, template, instruct = self.turn, self.template, self.instruct
        parameters = {
            "system": self._system_prompt(),
            "description": turn.description,
            "personality": turn.personality,
            "scenario": turn.scenario,
            "persona": turn.persona if self.scene["persona"]["position"] == 0 else "",
            "wiBefore": "\n".join(turn.lore_at(0)),
            "loreAfter": "\n".join(turn.lore_at(1)),
            "anchorBefore": self._anchor(2),
            "anchorAfter": self._anchor(0),
            "mesExamples": "".join(self.examples),
        }
        lines = [f"{parameters[name]}\n" for name in self.scene["story"] if parameters[name]]
        story = turn.expand("".join(lines) + self.scene["story_end"]).lstrip("\n")
        in_chat = template["story_string_position"] == 1
        ends_line = not self.in_instruct or (instruct["wrap"] and not instruct["story_string_suffix"])
        if story and not story.endswith("\n") and not in_chat and ends_line:
            story += "\n"
        if story and self.in_instruct and not in_chat:
            if instruct["story_string_prefix"]:
                prefix = with_name(turn.expand(instruct["story_string_prefix"]), "System")
                story = prefix + self.separator + story
            story += turn.expand(instruct["story_string_suffix"])
        self.story = "" if in_chat else story
        if in_chat:
            place = {"depth": template["story_string_depth"], "role": template["story_string_role"]}
            turn.registry["__STORY_STRING__"] = {"value": story, "position": 1, **place}

    def _system_prompt(self) -> str:
        if not self.system["enabled"]:
            return ""
        own, content = self.turn.system_prompt, self.system["content"]
        text = self.turn.with_original(own, content) if own else self.turn.of_card(content)
        return self.turn.with_original(text, content) if self.in_instruct else text

    def _anchor(self, position: int) -> str:
        found = [each["value"] for each in self.turn.sorted_registry() if each["position"] == position]
        return trim(self.turn.expand("\n".join(trim(value) for value in found if value)))

    def _write_chat(self) -> None:
        messages = [
            {
                "name": message["name"],
                "text": message["mes"],
                "is_user": bool(message.get("is_user")),
                "narrator": role_of(message) == "system",
                "forced": "force_avatar" in message,
            }
            for message in reversed(self.turn.core)
        ]
        self.injected = self._inject(messages)
        instructions = self._post_history()
        if instructions:
            messages.insert(int(self.continuing), _message("", instructions, is_user=True))
            if not self.continuing:
                self.injected = [place + 1 for place in self.injected]
        self.users = [message["is_user"] for message in messages] or [False]
        newest = self.users.index(True) if True in self.users and self.kind != "impersonate" else -1
        self.items = [self._item(messages, place, newest) for place in range(len(messages))] or [""]

    def _inject(self, messages: list[Scene]) -> list[int]:
        places: list[int] = []
        for depth in sorted(depth for depth in self.turn.depths() if depth <= 10_000):
            found: list[Scene] = []
            for role in NUMBERS.values():
                text = self.turn.expand("\n".join(self.turn.in_chat(depth, role))).lstrip(WHITE_SPACE)
                if text:
                    found.append(
                        _message(("", self.user, self.character)[role], text, is_user=role == 1, narrator=role == 0)
                    )
            wanted = 1 if self.continuing and depth == 0 else depth
            place = min(wanted + len(places), len(messages))
            messages[place:place] = found
            places += range(place, place + len(found))
        return places

    def _post_history(self) -> str:
        if not self.system["enabled"]:
            return ""
        own, usual = self.turn.post_history, self.system["post_history"]
        return self.turn.with_original(own, usual) if own else self.turn.of_card(usual)

    def _item(self, messages: list[Scene], place: int, newest: int) -> str:
        message = messages[place]
        continued = self.continuing and place == 0
        if self.in_instruct:
            flag = LAST if continued or place == newest else FIRST if place == len(messages) - 1 else 0
            named = message if message["is_user"] else {**message, "name": message["name"] or self.character}
            text, unfinished = self._message(named, flag)
            return unfinished if continued else text
        name = f"{message['name']}: " if message["name"] and not message["narrator"] else ""
        line = f"{name}{message['text']}\n"
        return line[: line.rindex(message["text"]) + len(message["text"])] if continued else line

    def _with_reply(self, text: str) -> str:
        quiet = self.turn.quiet_prompt
        if quiet and not self.in_instruct:
            text += f"\n{quiet}"
            if not self.scene["quiet_to_loud"]:
                return text
        elif quiet:
            text += self._message(_message(self.user, quiet, narrator=True))[0]
        if self.in_instruct:
            return text if self.continuing else text + self._reply_line()
        if self.kind == "impersonate":
            text = f"{_ended(text)}{self.user}:"
        chat = self.turn.chat
        if self.force_name and not (self.continuing and len(chat) == 1):
            answers = self.continuing and bool(chat) and bool(chat[-1].get("is_user"))
            text = _ended(text) + ("" if answers else f"{self.character}:")
        return text

    def _assemble(self) -> list[str]:
        alignment, start = "", self.template["chat_start"]
        if self.in_instruct and self.instruct["user_alignment_message"]:
            text = self.turn.expand(self.instruct["user_alignment_message"])
            alignment = self._message(_message(self.user, text, is_user=True), FIRST)[0]
        self.start = self.turn.expand(f"{start}\n") if start else ""
        self.pinned: bool = self.power_user["pin_examples"]
        self.sent_examples = list(self.examples) if self.pinned else []
        self.continued = ""
        if self.continuing and len(self.items) > 1:
            self.continued = self.items.pop(0)
            self.users.pop(0)
            self.injected = [place - 1 for place in self.injected if place > 0]
        history = self._history(alignment)
        if not self.pinned:
            count = self._count(alignment, history)
            for example in self.examples:
                count += tokens(example)
                if count >= self.limit:
                    break
                self.sent_examples.append(example)
        cuts = not self.in_instruct or (self.instruct["wrap"] and self.kind != "quiet")
        if history and not self.continuing and cuts:
            history[-1] = history[-1].removesuffix("\n")
        self._add_reply(history)
        return history

    def _finished(self, history: list[str], guidance: str) -> str:
        if guidance and history and self.guidance_depth == 0:
            history[-1] = _appended(history[-1], guidance)
        elif guidance and history:
            place = max(len(history) - self.guidance_depth, 0)
            history[place] = f"{guidance}\n{history[place]}"
        if history and self.turn.bias and not self.in_instruct and self.kind != "impersonate":
            history[-1] = _appended(history[-1], self.turn.bias.lstrip(WHITE_SPACE))
        text = "".join([self.story, *self.sent_examples, self.start, *history, self.continued]).replace("\r", "")
        return re.sub("\n+", "\n", text) if self.power_user["collapse_newlines"] else text

    def _padded(self, text: str) -> int:
        text = text.replace("\r", "")
        return tokens(text) + self.power_user["token_padding"] if text else 0

    def _count(self, alignment: str, history: list[str]) -> int:
        fixed = [self.story, *self.sent_examples, alignment, self.start]
        return self._padded("".join([*fixed, *history, self._with_reply(""), self.continued]))

    def _history(self, alignment: str) -> list[str]:
        count, kept = self._count(alignment, []), set[int]()
        reserved = [place for place in self.injected if place < len(self.items)]
        others = [place for place in range(len(self.items)) if place not in reserved]
        for places in (reserved, others):
            for place in places:
                count += tokens(self.items[place])
                if count >= self.limit:
                    break
                kept.add(place)
        history = [self.items[place] for place in sorted(kept, reverse=True)]
        begins_with_user = self.users[max(kept, default=0)]
        return [alignment, *history] if alignment and not begins_with_user else history

    def _add_reply(self, history: list[str]) -> None:
        while True:
            if history:
                history[-1] = self._with_reply(history[-1])
            text = "".join([self.story, *self.sent_examples, self.start, *history, "\n", self._with_reply("")])
            if not self.continued or self._padded(text + self.continued) <= self.limit:
                return
            if self.sent_examples and not self.pinned:
                self.sent_examples.pop()
            elif history:
                history.pop(0)
            else:
                return

    def _stop_strings(self) -> list[str]:
        template, chat, found = self.template, self.turn.chat, list[str]()
        if template["single_line"]:
            found.append("\n")
        if template["names_as_stop_strings"]:
            found += [f"\n{self.character}:" if self.kind == "impersonate" else f"\n{self.user}:", f"\n{self.user}:"]
            if self.continuing and chat and chat[-1].get("is_user"):
                found.append(f"\n{self.character}:")
            found += [f"\n{name}:" for name in self.turn.members if name != self.character]
        if self.in_instruct:
            found += self._sequences()
        if template["use_stop_strings"]:
            texts = [template["chat_start"], template["example_separator"]]
            found += [f"\n{self.turn.expand(text)}" for text in texts if text]
        return [text for text in dict.fromkeys(found) if text]

    def _sequences(self) -> list[str]:
        instruct = self.instruct
        sequences: list[str] = [instruct["stop_sequence"]]
        if instruct["sequences_as_stop_strings"]:
            names = {
                "input": self.user,
                "output": self.character,
                "first_output": self.character,
                "last_output": self.character,
            }
            for kind, name in (names | {"system": "System", "last_system": "System"}).items():
                sequences.append(with_name(instruct[f"{kind}_sequence"], name))
        lines = [self.separator + line for line in dict.fromkeys("\n".join(sequences).split("\n")) if trim(line)]
        return [self.turn.expand(line) for line in lines] if instruct["macro"] else lines


def _message(name: str, text: str, *, is_user: bool = False, narrator: bool = False) -> Scene:
    return {"name": name, "text": text, "is_user": is_user, "narrator": narrator, "forced": False}


def _appended(text: str, word: str) -> str:
    return text + word if text and text[-1] in WHITE_SPACE else f"{text} {word}"


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
