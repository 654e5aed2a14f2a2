"""Regex scripts: find and replace on messages, lore and reasoning, as SillyTavern runs them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSMatch
from tavernkit._text.js_values import UNDEFINED, to_number, truthy
from tavernkit._text.regex_scripts import ScriptBudget, Stretch
from tavernkit._text.traced_changes import edited, replace_traced, same_or_aligned
from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, is_sequence, thaw, thaw_object
from tavernkit.errors import Warn, log_warning
from tavernkit.silly_tavern._scripts.regex_replacement import (
    WORK_OF_A_RUN,
    ExpandScriptText,
    RegexScriptError,
    Replacement,
    escape_macro_value,
    regex_from_string,
)

_DISPLAY, _SEND_AS = 0, 4
"""Placements of older versions."""


class RegexPlacement(IntEnum):
    """The kind of a text, for scripts."""

    USER_INPUT = 1
    AI_OUTPUT = 2
    SLASH_COMMAND = 3
    WORLD_INFO = 5
    REASONING = 6


class MacroMode(IntEnum):
    """How macros in the pattern are treated."""

    NONE = 0
    RAW = 1
    ESCAPED = 2


@dataclass(frozen=True, slots=True)
class RegexScript:
    """One script. ``raw`` is its JSON with everything it came with; the fields are what running it needs.

    >>> from tavernkit.silly_tavern import MacroEngine, MacroEnvironment
    >>> engine, environment = MacroEngine(), MacroEnvironment(user_name="Ann")
    >>> def expand(text, /, *, character=None, escape=None):
    ...     return engine.expand(text, environment, character_name=character, post_process=escape)
    >>> RegexScript.from_json({"findRegex": "/you/g", "replaceString": "{{user}}"}).run("Thank you!", expand=expand)
    'Thank Ann!'
    """

    raw: JsonObject = field(repr=False)
    id: str
    """The script's id."""
    name: str
    """What the script is called."""
    find_regex: str
    """The regular expression, as JavaScript writes it: ``/pattern/flags``, or a pattern alone."""
    replace_string: str
    """What replaces it; ``{{match}}``, ``$1`` and macros work in it."""
    trim_strings: tuple[str, ...]
    """Texts that are removed from what was found."""
    placement: tuple[Json, ...]
    """The kinds of text that it runs on, as numbers of ``RegexPlacement``."""
    disabled: bool
    """True if the script is switched off."""
    markdown_only: bool
    """True to change only what is shown."""
    prompt_only: bool
    """True to change only what is sent."""
    run_on_edit: bool
    """True to also run when a message is edited."""
    macro_mode: MacroMode
    """Whether macros in the pattern are expanded, and whether their values are escaped."""
    min_depth: float | None
    """The smallest depth of messages that it runs on; None for any."""
    max_depth: float | None
    """The largest depth of messages that it runs on; None for any."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "trim_strings", tuple(self.trim_strings))  # cached by hash

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RegexScript:
        """Read a script; fields of the wrong type are treated as in SillyTavern."""
        require("data", data, Mapping[str, object], "the JSON object of a script")
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
        """Return a copy of the JSON object, with all original fields."""
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
        """Return True if the script is meant for a text of this kind at this depth.

        Args:
            placement: The kind of text, as a number of ``RegexPlacement``.
            is_markdown: True if the text is about to be shown.
            is_prompt: True if the text is about to be sent.
            is_edit: True if a message was edited.
            depth: Messages between the text and the end of the chat; None if it is not in the chat.
        """
        return applies(self, placement, is_markdown=is_markdown, is_prompt=is_prompt, is_edit=is_edit, depth=depth)

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
        """Apply the script to any text.

        On errors, the text stays unchanged and a warning is given.

        Args:
            text: The text.
            expand: Expands the macros in the script's own texts.
            character: The value of ``{{char}}`` in trim strings.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
            budget: The shared budget of all texts of a build.

        Raises:
            RegexScriptError: The script cannot be run, in strict mode.
        """
        return run_script(self, text, expand=expand, character=character, warn=warn, strict=strict, budget=budget)


def applies(
    script: RegexScript, placement: int, *, is_markdown: bool, is_prompt: bool, is_edit: bool, depth: float | None
) -> bool:
    """Return True if a script is meant for a text, like ``RegexScript.applies_to()``, but without checks."""
    # A script with neither flag changes what is stored, once: it does not run again for the display or the prompt.
    if script.markdown_only or script.prompt_only:
        wanted = (script.markdown_only and is_markdown) or (script.prompt_only and is_prompt)
    else:
        wanted = not is_markdown and not is_prompt
    if not wanted or (is_edit and not script.run_on_edit):
        return False
    if depth is not None:
        if script.min_depth is not None and depth < script.min_depth:
            return False
        if script.max_depth is not None and depth > script.max_depth:
            return False
    return any(type(place) is not bool and place == placement for place in script.placement)


def run_script(
    script: RegexScript,
    text: str,
    *,
    expand: ExpandScriptText,
    character: str | None = None,
    warn: Warn,
    strict: bool = False,
    budget: ScriptBudget | None,
    matches: list[JSMatch] | None = None,
) -> str:
    """Apply a script to a text, like ``RegexScript.run()``, but without checks; ``matches`` collects what it found."""
    if script.disabled or not script.find_regex or not text:
        return text
    budget = ScriptBudget() if budget is None else budget
    if not budget.may_run(id(script), text, warn):
        return text
    pattern = script.find_regex
    if script.macro_mode is MacroMode.RAW:
        pattern = expand(pattern)
    elif script.macro_mode is MacroMode.ESCAPED:
        pattern = expand(pattern, escape=escape_macro_value)
    regex = regex_from_string(pattern)
    if regex is None:
        broken = f"regex script {script.name!r} is not applied: {pattern!r:.200} is not a valid regular expression"
        budget.warn_once(broken, warn)
        return text

    def give_up(report: str) -> None:
        warn(f"regex script {script.name!r}: {report}")
        budget.slow(id(script), script.name, warn)

    made = Replacement(script.replace_string, script.trim_strings, expand=expand, character=character)
    if matches is not None:
        made.collect(matches)
    try:
        if type(text) is not str:
            made.searched = text
            return replace_traced(regex, text, made, script.name, give_up)
        return regex.replace(text, made, warn=give_up)
    except RegexScriptError as error:
        if strict:
            raise
        warn(f"regex script {script.name!r} is not applied: {error}")
        return text
    finally:
        budget.spend(made.work // WORK_OF_A_RUN, warn)


class Replay:
    """Replaces what scripts found in plain texts in traced copies of these, without searching again.

    Args:
        scripts: The scripts.
        expand: Expands their texts.
    """

    def __init__(self, scripts: Sequence[RegexScript], expand: ExpandScriptText) -> None:
        self._scripts = scripts
        self._expand = expand
        self._made: dict[int, Replacement] = {}

    def __call__(self, text: str, result: Stretch) -> str:
        """Return the traced result of all scripts.

        Args:
            text: The traced text.
            result: Their result for its words.
        """
        made = text
        for place, matches in result.finding:
            script = self._scripts[place]
            replacement = self._made.get(place)
            if replacement is None:
                replacement = self._made[place] = Replacement(
                    script.replace_string, script.trim_strings, expand=self._expand, character=None
                )
            replacement.again(made)
            made = edited(made, [(match.start, match.end, replacement(match)) for match in matches], script.name)
        return same_or_aligned(made, result.text, text)


@dataclass(frozen=True, slots=True)
class RegexScripts:
    """The scripts of a build: global ones run first, then those of the preset, then those of the character.

    The latter two run only if the user has allowed them; ``enabled`` is the switch of the whole extension.
    """

    global_: tuple[RegexScript, ...] = ()
    """Scripts of the user."""
    preset: tuple[RegexScript, ...] = ()
    """Scripts of the preset."""
    scoped: tuple[RegexScript, ...] = ()
    """Scripts of the character's card."""
    preset_allowed: bool = True
    """True if the user allowed the preset's scripts."""
    scoped_allowed: bool = True
    """True if the user allowed the character's scripts."""
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
        """Gather the scripts of ``extension_settings``, the card's ``data`` and the selected preset's file.

        Args:
            extension_settings: The object of that name in ``settings.json``.
            card_data: The card's ``data``.
            avatar: The character's file name, by which its scripts are allowed.
            preset: The selected preset's file.
            preset_name: Its name, by which its scripts are allowed.
            api: The API of the preset.
            warn: Called with each warning.
        """
        require("extension_settings", extension_settings, Mapping[str, object], "that object of settings.json")
        allowed_presets = extension_settings.get("preset_allowed_regex")
        for_api = allowed_presets.get(api or "") if is_mapping(allowed_presets) else None
        return cls(
            global_=read_scripts(_migrated(extension_settings.get("regex")), "the global regex scripts", warn),
            preset=read_scripts(_own_scripts(preset), "the preset's regex scripts", warn),
            scoped=read_scripts(_own_scripts(card_data), "the character's regex scripts", warn),
            preset_allowed=_lists(for_api, preset_name),
            scoped_allowed=_lists(extension_settings.get("character_allowed_regex"), avatar),
            enabled=not _lists(extension_settings.get("disabledExtensions"), "regex"),
        )

    @property
    def active(self) -> tuple[RegexScript, ...]:
        """Return the active scripts, in the order in which they run."""
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
        """Run the scripts that apply to a text, each on the result of the one before.

        ``depth`` is the distance from the last message, if any; ``character`` the speaker's name, if it is not the
        current character; ``budget`` is shared by all texts of a build. Values that are not text become empty text.

        Args:
            text: The text.
            placement: What the text is; see ``RegexPlacement``.
            expand: Expands macros in scripts.
            is_markdown: The text is shown.
            is_prompt: The text is sent.
            is_edit: The text was edited.
            depth: How far it is from the last message.
            character: The speaker's name.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
            budget: The shared budget of all texts of a build.
        """
        if not isinstance(text, str):
            return ""
        if not text or placement is None:
            return text
        for script in self.active:
            if applies(script, placement, is_markdown=is_markdown, is_prompt=is_prompt, is_edit=is_edit, depth=depth):
                text = run_script(
                    script, text, expand=expand, character=character, warn=warn, strict=strict, budget=budget
                )
        if budget is not None:
            budget.end_text()
        return text


def read_scripts(value: object, where: str, warn: Warn = log_warning) -> tuple[RegexScript, ...]:
    """Read a list of scripts; items that are not objects are reported and left out."""
    scripts: list[RegexScript] = []
    for index, item in enumerate(value if is_sequence(value) else ()):
        if is_mapping(item):
            scripts.append(RegexScript.from_json(item))
        else:
            warn(f"{where}: number {index + 1} is left out, a script must be an object")
    return tuple(scripts)


def migrate_script(value: Mapping[str, object], *, new_id: Callable[[], str]) -> JsonObject:
    """Migrate a global script of an older version, as SillyTavern does when it loads its settings.

    Args:
        value: The script's JSON object.
        new_id: Makes an id for a script without one.
    """
    script = _with_placement(value)
    if not truthy(script.get("id")):
        script["id"] = new_id()
    return script


def _migrated(scripts: object) -> Sequence[object]:
    """Migrate the placements of global scripts. SillyTavern leaves those of presets and characters as they are."""
    listed = scripts if is_sequence(scripts) else ()
    return [_with_placement(script) if is_mapping(script) else script for script in listed]


def _with_placement(value: Mapping[str, object]) -> JsonObject:
    script = thaw_object(value)
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


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _limit(value: Json, floor: float) -> float | None:
    """Return a depth limit; None if it is null, not a number, or below its minimum. Numbers may be text."""
    number = math.nan if value is None else to_number(value)
    return number if number >= floor else None


def _own_scripts(owner: Mapping[str, object] | None) -> Json:
    extensions = thaw(owner.get("extensions")) if owner is not None else None
    return extensions.get("regex_scripts") if is_object(extensions) else None


def _lists(names: object, name: str | None) -> bool:
    return name is not None and is_sequence(names) and name in names
