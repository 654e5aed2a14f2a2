"""Texts that extensions and SillyTavern itself add to a prompt, with stored summaries and ``/inject`` texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, own_keys, to_number, to_string, trim, truthy, utf16_sort_key
from tavernkit._text.traced import join, plain
from tavernkit._values import FrozenJson, FrozenObject, JsonObject, is_mapping, is_sequence
from tavernkit.errors import Warn
from tavernkit.prompt._inputs import Injection
from tavernkit.silly_tavern._limits import MAX_INJECTION_DEPTH
from tavernkit.silly_tavern._macros.substitution import Substitution
from tavernkit.silly_tavern._provenance import source

NONE, AFTER_MAIN, IN_CHAT, BEFORE_MAIN = -1, 0, 1, 2
"""Positions: not in the prompt (only scanned), after the main prompt, in the chat, before the main prompt."""

ROLES = ("system", "user", "assistant")
"""Roles by their number in the registry."""

SUMMARY = "1_memory"
AUTHORS_NOTE = "2_floating_prompt"
VECTORS_MEMORY = "3_vectors"
VECTORS_DATA_BANK = "4_vectors_data_bank"
SMART_CONTEXT = "chromadb"
PERSONA = "PERSONA_DESCRIPTION"
QUIET_PROMPT = "QUIET_PROMPT"
DEPTH_PROMPT = "DEPTH_PROMPT"

_KNOWN_TITLES = {
    SUMMARY: "Summary",
    AUTHORS_NOTE: "Author's Note",
    VECTORS_MEMORY: "Vector Storage (chat)",
    VECTORS_DATA_BANK: "Vector Storage (Data Bank)",
    SMART_CONTEXT: "Smart Context",
    PERSONA: "Persona Description",
    QUIET_PROMPT: "Quiet Prompt",
    DEPTH_PROMPT: "Character's Note",
}
_REWRITTEN = re.compile(
    rf"(?:{PERSONA}|{QUIET_PROMPT}|{DEPTH_PROMPT}(?:_.*)?|customDepthWI_.*|customWIOutlet_.*|__STORY_STRING__)",
    re.DOTALL,
)
"""Keys that SillyTavern writes or clears in every build: a text that an application registers there is never sent."""
_NOT_WORD = re.compile(r"\W", re.ASCII)
_INJECTION_POSITIONS = {"before": BEFORE_MAIN, "after": AFTER_MAIN, "chat": IN_CHAT, "none": NONE}


@dataclass(frozen=True, slots=True)
class ExtensionPrompt:
    """One registered text. With an invalid role or depth it is never shown.

    A ``filtered`` text is not scanned and is not placed next to the main prompt of chat completion; in the chat and in
    text completion it is still shown, as in SillyTavern.

    ``kind``, ``reason``, ``title`` and its lore ``entries`` are its provenance.
    """

    key: str
    """The name in the registry; texts at the same place are sorted by it."""
    value: str
    """The text."""
    position: int | float = NONE
    """Where it goes: -1 nowhere (only scanned), 0 after the main prompt, 1 in the chat, 2 before the main prompt."""
    depth: int | float = 0
    """Messages between it and the end of the chat, if it is in the chat."""
    role: int | float = 0
    """Its role in the chat: 0 system, 1 user, 2 assistant."""
    scan: bool = False
    """True if its text is scanned for lore keys."""
    filtered: bool = False
    kind: str = "extension"
    reason: str = "registered by an extension"
    title: str = ""
    entries: Sequence[FrozenJson] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> ExtensionPrompt:
        """Read ``{key, value, position, depth, role, scan}``; numbers may be text."""
        value = data.get("value")
        return cls(
            key=to_string(data.get("key", "")),
            value="" if value is None else to_string(value),
            position=_number(data.get("position"), NONE),
            depth=_number(data.get("depth"), 0),
            role=_number(data.get("role"), 0),
            scan=bool(data.get("scan")),
        )

    def to_json(self) -> JsonObject:
        """Return what ``from_json()`` reads."""
        return {
            "key": self.key,
            "value": plain(self.value),
            "position": self.position,
            "depth": self.depth,
            "role": self.role,
            "scan": self.scan,
        }

    @property
    def hidden(self) -> str:
        """Why the text is not shown at its place; empty if it may be shown."""
        if self.position == NONE:
            return "its position is none"
        if self.position not in (AFTER_MAIN, IN_CHAT, BEFORE_MAIN):
            return "it has no position"
        if self.position != IN_CHAT:
            return ""
        if self.role not in (0, 1, 2):
            return "its role is unknown"
        if self.depth < 0 or not _is_whole(self.depth):
            return "its depth is not a whole number"
        return "" if self.depth <= MAX_INJECTION_DEPTH else f"its depth is more than {MAX_INJECTION_DEPTH:,}"

    @property
    def label(self) -> str:
        """What people call it."""
        return self.title or _KNOWN_TITLES.get(self.key) or f"{self.kind} {self.key}"

    def source(self, stage: str) -> FrozenObject:
        """Its provenance, for the step that adds it."""
        more: dict[str, FrozenJson] = {"entries": self.entries} if self.entries else {}
        return source(stage, self.kind, self.key, self.label, self.reason, **more)

    @classmethod
    def from_injection(cls, injection: Injection) -> ExtensionPrompt:
        """Make one from an entry of the application's injection registry."""
        return cls(
            key=injection.id,
            value=injection.content,
            position=_INJECTION_POSITIONS[injection.position],
            depth=injection.depth,
            role=ROLES.index(injection.role) if injection.role in ROLES else -1,
            scan=injection.scan,
            kind="injection",
            reason=f"injected by the application ({injection.position})",
        )


class ExtensionPrompts:
    """The registry of one build, in the order keys were first registered (whole numbers first, as in JavaScript)."""

    def __init__(self, prompts: Iterable[ExtensionPrompt] = ()) -> None:
        self._prompts: dict[str, ExtensionPrompt] = {}
        self._in_order: tuple[ExtensionPrompt, ...] | None = None
        for prompt in prompts:
            if not _REWRITTEN.fullmatch(prompt.key):
                self.set(prompt)

    def set(self, prompt: ExtensionPrompt) -> None:
        """Register a text under its key; an existing key keeps its place."""
        self._prompts[prompt.key] = prompt
        self._in_order = None

    def remove(self, key: str) -> None:
        """Remove a key."""
        self._prompts.pop(key, None)
        self._in_order = None

    def get(self, key: str) -> ExtensionPrompt | None:
        """The text under a key."""
        return self._prompts.get(key)

    def __iter__(self) -> Iterator[ExtensionPrompt]:
        if self._in_order is None:
            self._in_order = tuple(self._prompts[key] for key in own_keys(self._prompts))
        return iter(self._in_order)

    def scanned(self, expand: Callable[[str], str]) -> tuple[str, ...]:
        """Return the texts that are scanned for lore keys, macros expanded, without empty ones."""
        expanded = (expand(prompt.value) for prompt in self if prompt.scan and prompt.value and not prompt.filtered)
        return tuple(text for text in expanded if text)

    def in_chat(self) -> dict[tuple[int, int], list[ExtensionPrompt]]:
        """Return the valid texts for the chat by depth and role number, each list in key order."""
        found: dict[tuple[int, int], list[ExtensionPrompt]] = {}
        for prompt in sorted(self._prompts.values(), key=lambda each: utf16_sort_key(each.key)):
            if prompt.position != IN_CHAT or not prompt.value:
                continue
            if not prompt.hidden:
                found.setdefault((int(prompt.depth), int(prompt.role)), []).append(prompt)
        return found


def joined(prompts: Iterable[ExtensionPrompt]) -> str:
    """Join texts: each trimmed, one per line; a blank one leaves an empty line."""
    return join("\n", (trim(prompt.value) for prompt in prompts))


def identifier_of(key: str) -> str:
    """The prompt identifier of a key: other characters than word characters become underscores, one per UTF-16 unit."""
    return _NOT_WORD.sub(lambda found: "__" if found.group() > "\uffff" else "_", key)


def _is_whole(number: int | float) -> bool:
    """Return True for whole numbers; infinity, which a file can contain, is not one."""
    return isinstance(number, int) or number.is_integer()


def _number(value: object, default: int) -> int | float:
    """Read a number as JavaScript does: of anything else it is NaN, and the text is never shown."""
    return default if value is None else to_number(value)


EXTENSION = "memory"
"""Its name in the list of extensions that can be switched off."""


@dataclass(frozen=True, slots=True)
class SummarySettings:
    """``extension_settings.memory``: the template of the summary and its place."""

    template: str = "[Summary: {{summary}}]"
    position: int | float = 0
    depth: int | float = 2
    role: int | float = 0
    scan: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> SummarySettings:
        """Read the settings; missing values get defaults."""
        template = data.get("template")
        return cls(
            template=template if isinstance(template, str) else cls().template,
            position=to_number(data.get("position", 0)),
            depth=to_number(data.get("depth", 2)),
            role=to_number(data.get("role", 0)),
            scan=truthy(data.get("scan")),
        )


def stored_summary(extras: Iterable[Mapping[str, object] | None]) -> str:
    """Return the newest summary of a chat that is opened; empty if there is none.

    Args:
        extras: ``extra`` of its lines, newest first, without the last line: a summary there does not count.
    """
    for extra in extras:
        memory = extra.get("memory") if extra else None
        if memory is not None and truthy(memory):
            # A summary that is not text breaks the extension's reading of the chat.
            return memory if isinstance(memory, str) else ""
    return ""


def summary_prompt(
    text: str, line: int | None, settings: SummarySettings, macros: Substitution
) -> ExtensionPrompt | None:
    """Make the registered text of a summary; None if there is none.

    Args:
        text: The summary.
        line: The number of the line that it is stored on; None if the line is gone.
        settings: The template, and the place.
        macros: Expands the template.
    """
    summary = trim(text)
    if not summary:
        return None
    template = settings.template
    # The finished text is expanded again with the rest, so macros in the summary itself work.
    value = macros.with_macros(template, {"summary": summary}) if template else "Summary: " + summary
    return ExtensionPrompt(
        SUMMARY,
        value,
        settings.position,
        settings.depth,
        settings.role,
        settings.scan,
        kind="summary",
        reason=f"summary stored on message {line}" if line is not None else "stored summary, whose message is gone",
    )


KEY_PREFIX = "script_inject_"

MAX_FILTER_CHARACTERS = 10_000
"""Longer filters are ignored."""

_TRUE = ("on", "true", "1")
_MACRO = r"\{\{[^{}]*\}\}"
# Braces of macros are not closures. Nothing is matched in two ways: long filters would take quadratic time.
_WORD = rf"(?:{_MACRO}|\S)++"
_BODY = rf"(?:{_MACRO}|[^{{}}])*"
_RETURN = re.compile(rf"/return(?:\s++(?P<value>(?:{_MACRO}|[^|{{}}\n])*+))?\Z")
_CLOSURE = re.compile(r"\{:(?P<body>.*):\}\Z", re.DOTALL)
_IF = re.compile(
    rf"/if\s++left=(?P<left>{_WORD})\s++right=(?P<right>{_WORD})\s++rule=(?P<rule>eq|neq)"
    rf"(?:\s++else=\{{:(?P<no>{_BODY}):\}})?\s++\{{:(?P<yes>{_BODY}):\}}\Z"
)


def script_injects(stored: object, expand: Callable[[str], str], warn: Warn) -> Iterator[ExtensionPrompt]:
    """Read the injects of a chat, in the order SillyTavern registers them.

    Args:
        stored: ``chat_metadata.script_injects``: an object by id, or a list.
        expand: Expands the macros of filters.
        warn: Called with what cannot be read, and with filters that cannot be run.
    """
    for inject_id, inject in _by_id(stored):
        if not is_mapping(inject):
            warn(f"inject {inject_id!r} is left out: it is an object in SillyTavern, not {type(inject).__name__}")
        else:
            yield ExtensionPrompt(
                key=f"{KEY_PREFIX}{inject_id}",
                value=to_string(inject.get("value", UNDEFINED)),
                position=to_number(inject.get("position", UNDEFINED)),
                depth=to_number(inject.get("depth", UNDEFINED)),
                role=to_number(inject.get("role") or 0),
                scan=truthy(inject.get("scan")),
                filtered=not _passes(inject_id, inject.get("filter"), expand, warn),
                kind="inject",
                reason="stored in the chat's header by /inject",
                title=f"Inject {inject_id}",
            )


def _by_id(stored: object) -> list[tuple[str, object]]:
    if is_sequence(stored):
        return [(str(index), inject) for index, inject in enumerate(stored)]
    return [(key, stored[key]) for key in own_keys(stored)] if is_mapping(stored) else []


def _passes(inject_id: str, script: object, expand: Callable[[str], str], warn: Warn) -> bool:
    """Return True if the inject's filter passes; only filters that are simple comparisons are run."""
    if not isinstance(script, str) or not trim(script):
        return True
    result = _result(trim(script), expand)
    if result is None:
        warn(f"inject {inject_id!r}: its filter is a script, which is not run; the text is taken as active")
        return True
    return trim(result).lower() in _TRUE


def _result(script: str, expand: Callable[[str], str]) -> str | None:
    """Return the value of a script; None if it is more than ``/return`` and ``/if`` with equality."""
    if len(script) > MAX_FILTER_CHARACTERS:
        return None
    while closure := _CLOSURE.match(script):
        script = trim(closure["body"])
    returned = _RETURN.match(script)
    if returned is not None:
        return expand(returned["value"] or "")
    compared = _IF.match(script)
    if compared is None:
        return None
    equal = expand(compared["left"]) == expand(compared["right"])
    branch = compared["yes"] if equal == (compared["rule"] == "eq") else compared["no"] or "/return"
    inner = _RETURN.match(trim(branch))
    return expand(inner["value"] or "") if inner is not None else None
