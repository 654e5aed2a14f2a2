"""Combines SillyTavern's instruct, context, sampler and chat files into one RisuAI preset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_number
from tavernkit._values import Json, JsonObject, is_mapping, is_sequence, thaw
from tavernkit.errors import InvalidPresetError, Warn, log_warning
from tavernkit.risu_ai._cbs.delimited import replace_delimited, replace_in_lines
from tavernkit.risu_ai._files.preset import UNSET_SAMPLER, Preset
from tavernkit.risu_ai._files.silly_tavern_preset import template_from_chat_preset
from tavernkit.risu_ai._prompt_template.cards import write_card

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
            if number + 1 < len(usable):
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
