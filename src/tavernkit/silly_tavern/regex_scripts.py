"""Regex scripts: find and replace on messages, lore and reasoning, as SillyTavern runs them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Protocol

from tavernkit.errors import TavernKitError, Warn, log_warning
from tavernkit.text.js_regex import JSMatch, JSRegex, JSRegexSyntaxError
from tavernkit.text.js_values import UNDEFINED, number_to_string, to_number, truthy
from tavernkit.text.script_budget import ScriptBudget
from tavernkit.values import Json, JsonObject, is_list, is_mapping, is_object, is_sequence, thaw, thaw_object

MAX_RESULT_CHARACTERS = 10_000_000
"""The longest text that a script may make. One that makes more is not applied."""

MAX_WORK = 10_000_000
"""How much a script may do in one text: references filled, characters trimmed, macros expanded."""

TRIM_WORK = 50
"""What a trim string counts beside the characters it is looked for in."""

MACRO_WORK = 1000
"""What a match with macros counts beside the characters they are looked for in."""

COMPILED_PATTERNS = 1000
"""Parsed pattern texts (SillyTavern's own number) and replacements that are kept."""


class RegexPlacement(IntEnum):
    """What a text is, as scripts see it."""

    USER_INPUT = 1
    AI_OUTPUT = 2
    SLASH_COMMAND = 3
    WORLD_INFO = 5
    REASONING = 6


class MacroMode(IntEnum):
    """What becomes of macros in the pattern."""

    NONE = 0
    RAW = 1
    ESCAPED = 2


class ExpandScriptText(Protocol):
    """Expands macros: ``character`` replaces the name of the character, ``escape`` is applied to each macro's value."""

    def __call__(
        self, text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None
    ) -> str:
        """Expand the macros of a text."""
        ...


class RegexScriptError(TavernKitError):
    """A script cannot be applied to a text (strict mode); ``code`` is stable for programs."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class RegexScript:
    """One script. ``raw`` is its JSON with everything it came with; the fields are what running it needs."""

    raw: JsonObject = field(repr=False)
    id: str
    name: str
    find_regex: str
    replace_string: str
    trim_strings: tuple[str, ...]
    placement: tuple[Json, ...]
    disabled: bool
    markdown_only: bool
    prompt_only: bool
    run_on_edit: bool
    macro_mode: MacroMode
    min_depth: float | None
    max_depth: float | None

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RegexScript:
        """Read a script; fields of the wrong type count as SillyTavern counts them."""
        raw = thaw_object(data)
        trim_strings, placement = raw.get("trimStrings"), raw.get("placement")
        mode = to_number(raw.get("substituteRegex", UNDEFINED))
        return cls(
            raw=raw,
            id=_text(raw.get("id")),
            name=_text(raw.get("scriptName")),
            find_regex=_text(raw.get("findRegex")),
            replace_string=_text(raw.get("replaceString")),
            trim_strings=tuple(text for text in trim_strings if isinstance(text, str)) if is_list(trim_strings) else (),
            placement=tuple(placement) if is_list(placement) else (),
            disabled=truthy(raw.get("disabled")),
            markdown_only=truthy(raw.get("markdownOnly")),
            prompt_only=truthy(raw.get("promptOnly")),
            run_on_edit=truthy(raw.get("runOnEdit")),
            macro_mode=MacroMode(int(mode)) if mode in (1, 2) else MacroMode.NONE,
            min_depth=_limit(raw.get("minDepth"), -1),
            max_depth=_limit(raw.get("maxDepth"), 0),
        )

    def to_json(self) -> JsonObject:
        """A copy of the JSON object, with every field it came with."""
        return thaw_object(self.raw)

    def applies_to(
        self,
        placement: int,
        *,
        is_markdown: bool = False,
        is_prompt: bool = False,
        is_edit: bool = False,
        depth: float | None = None,
    ) -> bool:
        """Tell whether the script is meant for a text of this kind at this depth."""
        if self.markdown_only or self.prompt_only:
            wanted = (self.markdown_only and is_markdown) or (self.prompt_only and is_prompt)
        else:
            wanted = not is_markdown and not is_prompt
        if not wanted or (is_edit and not self.run_on_edit):
            return False
        if depth is not None:
            if self.min_depth is not None and depth < self.min_depth:
                return False
            if self.max_depth is not None and depth > self.max_depth:
                return False
        return any(type(place) is not bool and place == placement for place in self.placement)

    def run(
        self,
        text: str,
        *,
        expand: ExpandScriptText,
        character: str | None = None,
        warn: Warn = log_warning,
        strict: bool = False,
        budget: ScriptBudget | None = None,
    ) -> str:
        """Apply the script to a text, whatever it is meant for.

        ``character`` is the name that ``{{char}}`` stands for in trim strings; ``budget`` is what all texts of a build
        share. What cannot be done leaves the text as it is and is reported, or raises :class:`RegexScriptError` in
        strict mode.
        """
        if self.disabled or not self.find_regex or not text:
            return text
        budget = ScriptBudget() if budget is None else budget
        if not budget.may_run(id(self), text, warn):
            return text
        pattern = self.find_regex
        if self.macro_mode is MacroMode.RAW:
            pattern = expand(pattern)
        elif self.macro_mode is MacroMode.ESCAPED:
            pattern = expand(pattern, escape=escape_macro_value)
        regex = regex_from_string(pattern)
        if regex is None:
            broken = f"regex script {self.name!r} is not applied: {pattern!r:.200} is not a valid regular expression"
            budget.tell_once(broken, warn)
            return text

        def give_up(report: str) -> None:
            warn(f"regex script {self.name!r}: {report}")
            budget.slow(id(self), self.name, warn)

        try:
            return regex.replace(text, _Replacement(self, expand, character), warn=give_up)
        except RegexScriptError as error:
            if strict:
                raise
            warn(f"regex script {self.name!r} is not applied: {error}")
            return text


class _Replacement:
    """Makes the text that stands for a match."""

    def __init__(self, script: RegexScript, expand: ExpandScriptText, character: str | None) -> None:
        # The text between references, the number or the name of one, and so on.
        self._pieces = _split_references(script.replace_string)
        self._trim_strings = script.trim_strings
        self._expand = expand
        self._character = character
        self._size = 0
        self._work = 0

    def __call__(self, match: JSMatch) -> str:
        pieces, groups = self._pieces, (match.text, *match.groups)
        self._take(2 * len(pieces))
        filled = pieces[0] or ""
        if len(pieces) > 1:
            values = [
                (self._value(pieces[index], pieces[index + 1], match, groups), pieces[index + 2] or "")
                for index in range(1, len(pieces), 3)
            ]
            filled += "".join(text for pair in values for text in pair)
        if "{{" in filled:
            self._take(MACRO_WORK + len(filled))
        replaced = self._expand(filled)
        self._size += len(replaced)
        if self._size > MAX_RESULT_CHARACTERS:
            raise RegexScriptError(f"it makes more than {MAX_RESULT_CHARACTERS} characters", code="TOO_LONG")
        return replaced

    def _take(self, work: int) -> None:
        self._work += work
        if self._work > MAX_WORK:
            raise RegexScriptError("it has too much to do for its many matches", code="TOO_LONG")

    def _value(self, digits: str | None, name: str | None, match: JSMatch, groups: Sequence[str | None]) -> str:
        value = match.named.get(name) if name else self._argument(digits or "", match, groups)
        return self._trimmed(value) if value else ""

    def _argument(self, digits: str, match: JSMatch, groups: Sequence[str | None]) -> str | None:
        """What the number stands for: the match, its groups, then the offset and the whole text, as in the program."""
        significant = digits.lstrip("0") or "0"
        number = int(significant) if len(significant) <= 4 else len(groups) + 3
        if number < len(groups):
            return groups[number]
        if number == len(groups):
            offset = match.utf16_start
            if offset and self._trim_strings:
                raise RegexScriptError(
                    f"${digits} is a number, which trim strings cannot be taken from", code="type_error"
                )
            return number_to_string(offset) if offset else None
        if number == len(groups) + 1:
            return match.input
        if number == len(groups) + 2 and match.named:
            raise RegexScriptError(f"${digits} is the set of named groups, which is no text", code="type_error")
        return None

    def _trimmed(self, value: str) -> str:
        for trim_string in self._trim_strings:
            self._take(TRIM_WORK + len(value))
            unwanted = self._expand(trim_string, character=self._character)
            value = value.replace(unwanted, "") if unwanted else value
        return value


@dataclass(frozen=True, slots=True)
class RegexScripts:
    """The scripts of a build: global ones run first, then those of the preset, then those of the character.

    The latter two count only where the user has allowed them; ``enabled`` is the switch of the whole extension.
    """

    global_: tuple[RegexScript, ...] = ()
    preset: tuple[RegexScript, ...] = ()
    scoped: tuple[RegexScript, ...] = ()
    preset_allowed: bool = True
    scoped_allowed: bool = True
    enabled: bool = True

    @classmethod
    def from_settings(
        cls,
        extension_settings: Mapping[str, object],
        *,
        card_data: Mapping[str, object] | None = None,
        avatar: str | None = None,
        preset: Mapping[str, object] | None = None,
        preset_name: str | None = None,
        api: str | None = None,
        warn: Warn = log_warning,
    ) -> RegexScripts:
        """Gather the scripts of ``extension_settings``, the card's ``data`` and the selected preset's file."""
        allowed_presets = extension_settings.get("preset_allowed_regex")
        for_api = allowed_presets.get(api or "") if is_mapping(allowed_presets) else None
        return cls(
            global_=read_scripts(extension_settings.get("regex"), "the global regex scripts", warn),
            preset=read_scripts(_own_scripts(preset), "the preset's regex scripts", warn),
            scoped=read_scripts(_own_scripts(card_data), "the character's regex scripts", warn),
            preset_allowed=_lists(for_api, preset_name),
            scoped_allowed=_lists(extension_settings.get("character_allowed_regex"), avatar),
            enabled=not _lists(extension_settings.get("disabledExtensions"), "regex"),
        )

    @property
    def active(self) -> tuple[RegexScript, ...]:
        """The scripts that count, in the order in which they run."""
        if not self.enabled:
            return ()
        preset = self.preset if self.preset_allowed else ()
        return (*self.global_, *preset, *(self.scoped if self.scoped_allowed else ()))

    def apply(
        self,
        text: object,
        placement: int | None,
        *,
        expand: ExpandScriptText,
        is_markdown: bool = False,
        is_prompt: bool = False,
        is_edit: bool = False,
        depth: float | None = None,
        character: str | None = None,
        warn: Warn = log_warning,
        strict: bool = False,
        budget: ScriptBudget | None = None,
    ) -> str:
        """Run the scripts that are meant for a text, each on what the one before made of it.

        ``depth`` is the distance from the last message, where there is one; ``character`` the speaker's name, where
        it is not the current character; ``budget`` is what all texts of a build share. What is not text becomes empty
        text.
        """
        if not isinstance(text, str):
            return ""
        if not text or placement is None:
            return text
        for script in self.active:
            if script.applies_to(placement, is_markdown=is_markdown, is_prompt=is_prompt, is_edit=is_edit, depth=depth):
                text = script.run(text, expand=expand, character=character, warn=warn, strict=strict, budget=budget)
        return text


def read_scripts(value: object, where: str, warn: Warn = log_warning) -> tuple[RegexScript, ...]:
    """Read a list of scripts; what is not an object is reported and left out."""
    scripts: list[RegexScript] = []
    for index, item in enumerate(value if is_sequence(value) else ()):
        if is_mapping(item):
            scripts.append(RegexScript.from_json(item))
        else:
            warn(f"{where}: number {index + 1} is left out, a script must be an object")
    return tuple(scripts)


def migrate_script(value: Mapping[str, object], *, new_id: Callable[[], str]) -> JsonObject:
    """Bring a global script of an older version up to date, as SillyTavern does when it loads its settings."""
    script = thaw_object(value)
    if not truthy(script.get("id")):
        script["id"] = new_id()
    given = script.get("placement")
    placement: list[Json] = given if is_list(given) else []
    if _DISPLAY in placement:
        others = [place for place in placement if place != _DISPLAY]
        placement = others or [int(place) for place in RegexPlacement]
        script["markdownOnly"] = script["promptOnly"] = True
    if _SEND_AS in placement:
        others = [place for place in placement if place != _SEND_AS]
        placement = others or [int(RegexPlacement.SLASH_COMMAND)]
    script["placement"] = placement
    return script


@lru_cache(COMPILED_PATTERNS)
def regex_from_string(text: str) -> JSRegex | None:
    """Read the pattern of a script, with or without slashes; nothing if it is no valid regular expression."""
    found = _PATTERN.search(text)
    if found is None:
        return None
    body, flags = found[2], found[3]
    try:
        if flags and (len(set(flags)) != len(flags) or not _ACCEPTED_FLAGS.issuperset(flags)):
            return JSRegex.compile(text)
        return JSRegex.compile(body, flags)
    except JSRegexSyntaxError:
        return None


def escape_macro_value(value: str) -> str:
    """Escape the value of a macro so that it stands for itself in a pattern."""
    return _SPECIAL.sub(lambda found: _ESCAPES.get(found[0]) or f"\\{found[0]}", value)


_DISPLAY, _SEND_AS = 0, 4
_LINE = "[^\n\r\u2028\u2029]"
_PATTERN = re.compile(rf"(/?)({_LINE}+)\1([a-zA-Z]*)")
_ACCEPTED_FLAGS = frozenset("gmixXsuUAJ")
_MATCH_MACRO = re.compile(r"\{\{match\}\}", re.IGNORECASE)
_REFERENCE = re.compile(r"\$(?:([0-9]+)|<([^>]+)>)")
_NUMBER = re.compile(r"\$([0-9]+)")
_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\/|()\n\r\t\v\f\0]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\f": "\\f", "\0": "\\0"}


@lru_cache(maxsize=COMPILED_PATTERNS)
def _split_references(replace_string: str) -> Sequence[str | None]:
    """Cut a replacement into text, number, name, text, number, name, and so on to a last text."""
    template = _MATCH_MACRO.sub("$0", replace_string)
    pieces: list[str | None] = []
    # Behind the last ">" there are no names, and looking for the end of each would take quadratic time.
    at, end = 0, template.rfind(">") + 1
    for found in _REFERENCE.finditer(template, 0, end):
        pieces += (template[at : found.start()], found[1], found[2])
        at = found.end()
    for found in _NUMBER.finditer(template, end):
        pieces += (template[at : found.start()], found[1], None)
        at = found.end()
    return (*pieces, template[at:])


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _limit(value: Json, floor: float) -> float | None:
    """A depth limit, or nothing if it is null, no number, or below its floor."""
    number = math.nan if value is None else to_number(value)
    return number if number >= floor else None


def _own_scripts(owner: Mapping[str, object] | None) -> Json:
    extensions = thaw(owner.get("extensions")) if owner is not None else None
    return extensions.get("regex_scripts") if is_object(extensions) else None


def _lists(names: object, name: str | None) -> bool:
    return name is not None and is_sequence(names) and name in names
