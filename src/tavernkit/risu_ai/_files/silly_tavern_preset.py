"""SillyTavern's files as presets: chat presets (also back, as far as possible), instruct, context and sampler files."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_number, truthy
from tavernkit._values import Json, JsonObject, is_mapping, is_sequence, thaw
from tavernkit.errors import InvalidPresetError, Warn, log_warning
from tavernkit.risu_ai._files.preset import UNSET_SAMPLER, Preset
from tavernkit.risu_ai._js import replace_delimited, replace_in_lines
from tavernkit.risu_ai._prompt_template.cards import (
    ChatCard,
    PlainCard,
    SlotCard,
    TemplateCard,
    write_card,
)
from tavernkit.risu_ai.errors import PromptTemplateError

IMPORTED_NAME = "Imported ST Preset"
_SLOTS: Mapping[str, str] = {
    "worldInfoBefore": "lorebook",
    "charDescription": "description",
    "personaDescription": "persona",
}
_IGNORED = frozenset({"dialogueExamples", "charPersonality", "scenario", "worldInfoAfter"})
_JAILBREAKS = frozenset({"jailbreak", "nsfw"})


def is_chat_preset(value: Mapping[str, object]) -> bool:
    """Return True if a JSON object is a SillyTavern chat preset."""
    orders = value.get("prompt_order")
    first = orders[0] if is_sequence(orders) and orders else None
    return is_sequence(value.get("prompts")) and is_mapping(first) and is_sequence(first.get("order"))


def template_from_chat_preset(
    preset: Mapping[str, object], *, warn: Warn = log_warning, strict: bool = False
) -> tuple[TemplateCard, ...]:
    """Convert the prompts of a SillyTavern preset as RisuAI does.

    Only the first order counts. Card roles are kept unchanged, so SillyTavern's ``assistant`` becomes a role that
    RisuAI's cards do not have. A preset without prompts makes RisuAI throw; strict mode raises.
    """
    cards: list[TemplateCard] = []
    for entry in _first_order(preset):
        if not is_mapping(entry) or not truthy(entry.get("enabled")):
            continue
        prompts = preset.get("prompts")
        if not is_sequence(prompts):
            problem = "the SillyTavern preset has an order but no prompts"
            if strict:
                raise PromptTemplateError(problem)
            warn(problem)
            break
        identifier = entry.get("identifier") or ""
        found = next((each for each in prompts if is_mapping(each) and each.get("identifier") == identifier), None)
        card = None if found is None else _card(str(identifier), found)
        if card is not None:
            cards.append(card)
    prefill = preset.get("assistant_prefill")
    if isinstance(prefill, str) and prefill:
        text = f"{{{{#if {{{{prefill_supported}}}}}}}}{prefill}{{{{/if}}}}"
        cards += [SlotCard(type="postEverything"), PlainCard(type2="main", text=text, role="bot")]
    return tuple(cards)


def _first_order(preset: Mapping[str, object]) -> Sequence[object]:
    orders = preset.get("prompt_order")
    first = orders[0] if is_sequence(orders) and orders else None
    order = first.get("order") if is_mapping(first) else None
    return order if is_sequence(order) else ()


def _card(identifier: str, prompt: Mapping[str, object]) -> TemplateCard | None:
    if identifier in _IGNORED:
        return None
    if identifier in _SLOTS:
        return SlotCard(type=_SLOTS[identifier])
    if identifier == "chatHistory":
        return ChatCard()
    content, role = prompt.get("content"), prompt.get("role")
    return PlainCard(
        type="jailbreak" if identifier in _JAILBREAKS else "plain",
        type2="main" if identifier == "main" else "normal",
        text="" if content is None else str(content),
        role="system" if role is None else str(role),
    )


def preset_from_chat_preset(value: Mapping[str, object], *, warn: Warn = log_warning) -> Preset:
    """Convert a whole SillyTavern chat preset as RisuAI's import does, including its odd numbers.

    A file without a temperature ends with 8000 and one without a presence penalty with no number at all.
    """
    temperature = _number(value, "temperature", 80)
    return Preset.from_json(
        {
            "name": IMPORTED_NAME,
            "temperature": temperature * 100,
            "frequencyPenalty": _number(value, "frequency_penalty", 0.7) * 100,
            "PresensePenalty": _number(value, "presence_penalty", math.nan) * 0.7 * 100,
            "top_p": _number(value, "top_p", 1),
        },
        warn=warn,
    ).replace(prompt_template=template_from_chat_preset(value, warn=warn))


def _number(value: Mapping[str, object], key: str, default: float) -> float:
    found = value.get(key)
    return default if found is None else to_number(found)


def to_chat_preset(preset: Preset, *, warn: Warn = log_warning) -> JsonObject:
    """Convert a RisuAI preset to a SillyTavern chat preset; unsupported values are reported.

    Args:
        preset: The preset to write.
        warn: Called with each warning; by default they are logged.
    """
    writer = _Writer(warn)
    for card in preset.prompt_template or _template_of(preset):
        writer.add(card)
    samplers = {
        "temperature": preset.temperature,
        "frequency_penalty": preset.frequency_penalty,
        "presence_penalty": preset.presence_penalty,
    }
    written: JsonObject = {
        "chat_completion_source": "openai",
        "openai_max_context": preset.max_context,
        "openai_max_tokens": preset.max_response,
        "prompts": writer.prompts,
        "prompt_order": [{"character_id": 100001, "order": writer.order}],
    }
    stated = ((key, value) for key, value in samplers.items() if value != UNSET_SAMPLER and math.isfinite(value))
    written.update((key, value / 100) for key, value in stated)
    if preset.top_p != UNSET_SAMPLER and math.isfinite(preset.top_p):
        written["top_p"] = preset.top_p
    return written


def _template_of(preset: Preset) -> tuple[TemplateCard, ...]:
    """Return the cards that print the same as a preset without a template."""
    cards: Mapping[str, TemplateCard] = {
        "main": PlainCard(type2="main", text=preset.main_prompt or ""),
        "jailbreak": PlainCard(type="jailbreak", text=preset.jailbreak or ""),
        "globalNote": PlainCard(type2="globalNote", text=preset.global_note),
        "description": SlotCard(type="description"),
        "personaPrompt": SlotCard(type="persona"),
        "lorebook": SlotCard(type="lorebook"),
        "chats": ChatCard(),
    }
    return tuple(cards[name] for name in preset.formating_order if name in cards)


class _Writer:
    _NAMES: Mapping[str, str] = {slot: identifier for identifier, slot in _SLOTS.items()}
    _ROLES: Mapping[str, str] = {"bot": "assistant", "assistant": "assistant", "user": "user", "system": "system"}

    def __init__(self, warn: Warn) -> None:
        self.prompts: list[Json] = []
        self.order: list[Json] = []
        self._used: set[str] = set()
        self._warn = warn

    def add(self, card: TemplateCard) -> None:
        if isinstance(card, PlainCard):
            self._add_text(card)
            return
        identifier = "chatHistory" if isinstance(card, ChatCard) else self._NAMES.get(card.type)
        if isinstance(card, ChatCard) and (card.range_start != 0 or card.range_end != "end"):
            self._warn(f"a chat card with the range {card.range_start} to {card.range_end} becomes the whole chat")
        if identifier is None or identifier in self._used:
            self._warn(f"SillyTavern's presets have no place for this {card.type} card; it is left out")
            return
        if isinstance(card, SlotCard) and card.inner_format:
            self._warn(f"the inner format of the {card.type} card is left out")
        self._append(identifier, {"name": identifier, "marker": True, "system_prompt": True})

    def _add_text(self, card: PlainCard) -> None:
        wanted = {"jailbreak": "jailbreak"}.get(card.type) or ("main" if card.type2 == "main" else "")
        identifier = wanted if wanted and wanted not in self._used else f"risu-{len(self.prompts) + 1}"
        if card.type == "cot":
            self._warn("a cot card becomes a plain prompt, whether chain of thought is on or not")
        self._append(
            identifier,
            {
                "name": card.name or card.type2,
                "role": self._ROLES.get(card.role, "system"),
                "content": card.text,
                "system_prompt": identifier == wanted,
                "marker": False,
            },
        )

    def _append(self, identifier: str, prompt: JsonObject) -> None:
        self._used.add(identifier)
        self.prompts.append({"identifier": identifier, **prompt})
        self.order.append({"identifier": identifier, "enabled": True})


INSTRUCT, PARAMETERS, CONTEXT, CHAT, NOT_SUPPORTED = "STINST", "PARAMETERS", "STCONTEXT", "STCHAT", "NOTSUPPORTED"
_ORDER = (INSTRUCT, PARAMETERS, CONTEXT, CHAT)
CONVERTED_NAME = "Converted from JSON"
MODEL = "openrouter"

_TEMPLATE: Sequence[JsonObject] = (
    {"type": "plain", "type2": "main", "text": "", "role": "system"},
    {"type": "description"},
    {"type": "persona"},
    {"type": "lorebook"},
    {"type": "chat", "rangeStart": 0, "rangeEnd": "end"},
    {"type": "authornote"},
    {"type": "plain", "type2": "globalNote", "text": "", "role": "system"},
)
_SYSTEM_MACROS = re.compile(r"\{\{(?:system|system_prompt|systemPrompt|instructSystem|instructSystemPrompt)\}\}")
_IF_BLOCKS = re.compile(r"\{\{#if.*?\{\{/if\}\}", re.DOTALL)
_MACROS = re.compile(r"\{\{.*?\}\}")
_BLANK_LINES = re.compile(r"\n{2,}")
_PROXY_ARGUMENTS = (
    *("top_k", "top_a", "min_p", "typical_p", "tfs", "epsilon_cutoff", "eta_cutoff"),
    *("mirostat_mode", "mirostat_tau", "mirostat_eta", "penalty_alpha", "guidance_scale", "no_repeat_ngram_size"),
)


@dataclass(frozen=True, slots=True)
class StFile:
    """One file of SillyTavern: its kind and its JSON."""

    kind: str
    content: Mapping[str, object]

    @classmethod
    def of(cls, content: Mapping[str, object]) -> StFile:
        """Return the kind of a file, judged by its content."""
        return cls(file_kind(content), content)


def file_kind(content: Mapping[str, object]) -> str:
    """Return the kind of a SillyTavern file: the first that matches."""
    if (
        content.get("chat_completion_source") is not None
        and is_sequence(content.get("prompts"))
        and is_sequence(content.get("prompt_order"))
    ):
        return CHAT
    kinds = (
        (PARAMETERS, ("temp", "rep_pen", "min_length")),
        (CONTEXT, ("story_string", "chat_start")),
        (INSTRUCT, ("input_sequence", "output_sequence")),
    )
    for kind, keys in kinds:
        if all(content.get(key) is not None for key in keys):
            return kind
    return NOT_SUPPORTED


@dataclass(frozen=True, slots=True)
class _Instruct:
    """The sequences around messages."""

    system_prompt: str = ""
    user: tuple[str, str] = ("", "")
    assistant: tuple[str, str] = ("", "")
    system: tuple[str, str] = ("", "")

    @classmethod
    def read(cls, content: Mapping[str, object]) -> _Instruct:
        def text(key: str) -> str:
            value = content.get(key)
            return value if isinstance(value, str) else ""

        opening, closing = text("system_sequence") + text("system_sequence_prefix"), text("system_sequence_suffix")
        if content.get("system_same_as_user"):
            # RisuAI closes the message with the sequence that opens a reply, not with the user's suffix.
            opening, closing = text("input_sequence"), text("output_sequence")
        return cls(
            system_prompt=text("system_prompt"),
            user=(text("input_sequence"), text("input_suffix")),
            assistant=(text("output_sequence"), text("output_suffix")),
            system=(opening, closing + text("system_suffix")),
        )

    def jinja(self) -> str:
        rows = (("user", self.user), ("assistant", self.assistant), ("system", self.system))
        inner = "".join(
            f"{{% if message.role == '{role}' %}}{before}{{{{ message.content }}}}{after}{{% endif %}}"
            for role, (before, after) in rows
        )
        return f"{{% for message in messages %}}{inner}{{% endfor %}}{self.assistant[0]}"


def preset_from_files(files: Sequence[StFile], *, warn: Warn = log_warning) -> Preset:
    """Combine files as RisuAI does; an instruct file with a chat preset is refused."""
    kinds = {file.kind for file in files}
    if {INSTRUCT, CHAT} <= kinds:
        raise InvalidPresetError("an instruct file and a chat preset cannot be put together")
    written: JsonObject = {
        "name": CONVERTED_NAME,
        "aiModel": MODEL,
        "subModel": MODEL,
        "promptTemplate": [dict(card) for card in _TEMPLATE],
        "useInstructPrompt": True,
        "instructChatTemplate": "jinja",
        "reverseProxyOobaArgs": {"mode": "instruct"},
    }
    instruct, story = _Instruct(), ""
    usable = sorted((file for file in files if file.kind in _ORDER), key=lambda file: _ORDER.index(file.kind))
    for number, file in enumerate(usable):
        if file.kind == INSTRUCT:
            instruct = _Instruct.read(file.content)
            if number + 1 < len(usable):  # RisuAI forgets the name of an instruct file that comes last
                written["name"] = str(file.content.get("name") or "")
        elif file.kind == PARAMETERS:
            written.update(_parameters(file.content))
        elif file.kind == CONTEXT:
            story = _story(file.content, instruct.system_prompt)
        else:
            written.update(_chat(file.content, warn))
    if CHAT not in kinds:
        written["JinjaTemplate"] = story + instruct.jinja()
    return Preset.from_json(written, warn=warn)


def _story(content: Mapping[str, object], system_prompt: str) -> str:
    story, start = content.get("story_string"), content.get("chat_start")
    text = story if isinstance(story, str) else ""
    text = _SYSTEM_MACROS.sub(lambda _: system_prompt, text)
    text = replace_in_lines(_MACROS, "}}", "", replace_delimited(_IF_BLOCKS, "{{/if}}", "", text))
    return _BLANK_LINES.sub("\n\n", text) + (start if isinstance(start, str) else "")


_SAMPLERS = (
    ("temp", "temperature", 100),
    ("top_p", "top_p", 1),
    ("top_k", "top_k", 1),
    ("top_a", "top_a", 1),
    ("min_p", "min_p", 1),
    ("rep_pen", "repetition_penalty", 1),
    ("freq_pen", "frequencyPenalty", 100),
    ("presence_penalty", "PresensePenalty", 100),
)


def _parameters(content: Mapping[str, object]) -> JsonObject:
    listed = content.get("samplers")
    names = set(listed) if is_sequence(listed) else None
    written: JsonObject = {}
    for name, key, factor in _SAMPLERS:
        used = content.get(name) is not None and (names is None or name in names)
        written[key] = _scaled(content[name], factor) if used else UNSET_SAMPLER
    arguments: dict[str, Json] = {"mode": "instruct"}
    arguments.update((key, thaw(content[key])) for key in _PROXY_ARGUMENTS if content.get(key) is not None)
    written["reverseProxyOobaArgs"] = arguments
    return written


_CHAT_SAMPLERS = (
    ("temperature", "temperature", 100),
    ("top_p", "top_p", 1),
    ("top_k", "top_k", 1),
    ("top_a", "top_a", 1),
    ("min_p", "min_p", 1),
    ("repetition_penalty", "repetition_penalty", 1),
    ("frequency_penalty", "frequencyPenalty", 100),
    ("presence_penalty", "PresensePenalty", 100),
)


def _chat(content: Mapping[str, object], warn: Warn) -> JsonObject:
    written: JsonObject = {
        "name": str(content.get("name") or ""),
        "promptTemplate": [write_card(card) for card in template_from_chat_preset(content, warn=warn)],
        "useInstructPrompt": False,
    }
    for name, key, factor in _CHAT_SAMPLERS:
        stated = content.get(name) is not None
        written[key] = _scaled(content[name], factor) if stated else UNSET_SAMPLER
    return written


def _scaled(value: object, factor: int) -> float:
    number = to_number(value) * factor
    return int(number) if number == number and abs(number) < 2**53 and number == int(number) else number


def read_st_files(values: Sequence[object], *, warn: Warn = log_warning) -> Preset:
    """Convert the parsed JSON of SillyTavern files of any kind.

    Args:
        values: The parsed JSON of each file.
        warn: Called with each warning; by default they are logged.
    """
    objects = [value for value in values if is_mapping(value)]
    if len(objects) < len(values):
        warn(f"{len(values) - len(objects)} of the files contain no object; they are left out")
    return preset_from_files([StFile.of(value) for value in objects], warn=warn)
