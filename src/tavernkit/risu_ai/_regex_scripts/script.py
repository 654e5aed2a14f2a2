"""A regex script, as RisuAI stores it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import parse_int, trim, truthy
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, is_mapping, is_sequence, thaw_object
from tavernkit.errors import Warn
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.delimited import replace_delimited
from tavernkit.risu_ai._js import sort_descending

ScriptMode = Literal["editinput", "editoutput", "editprocess", "editdisplay", "edittrans"]
"""When a script runs: on the user's text, on the reply, on the history, on what is shown, on a translation."""

FILE_TYPE = "regex"
_TAG = re.compile(r"<(.+?)>", re.DOTALL)
_FLAGS = "dgimsuvy"
_ORDER = "order "


@dataclass(frozen=True, slots=True)
class RegexScript:
    """A pattern and what to put in its place; ``flag`` counts only with ``able_flag`` and may hold ``<action>`` tags.

    ``raw`` keeps the file's own object.
    """

    pattern: str = ""
    """The regular expression (RisuAI's ``in``)."""
    out: str = ""
    """What replaces it; ``$1``, ``$&`` and CBS work in it."""
    type: str = "editoutput"
    """When it runs: ``editinput``, ``editoutput``, ``editprocess`` (the prompt), ``editdisplay``, …"""
    flag: str = ""
    able_flag: bool = False
    comment: str = ""
    """The name of the script."""
    raw: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RegexScript:
        """Read a script object; values that are not texts count as empty."""

        def text(name: str) -> str:
            found = data.get(name)
            return found if isinstance(found, str) else ""

        return cls(
            pattern=text("in"),
            out=text("out"),
            type=text("type"),
            flag=text("flag"),
            able_flag=truthy(data.get("ableFlag")),
            comment=text("comment"),
            raw=data,  # pyright: ignore[reportArgumentType]  # JSON by contract
        )

    def to_json(self) -> JsonObject:
        """The script as a file has it."""
        plain = thaw_object(self.raw)
        own: JsonObject = {
            "comment": self.comment,
            "in": self.pattern,
            "out": self.out,
            "type": self.type,
            "flag": self.flag,
            "ableFlag": self.able_flag,
        }
        for name, value in own.items():
            if name in plain or value:
                plain[name] = value
        return plain

    def compile(self) -> CompiledScript:
        """Take the tags out of the flag."""
        if not self.able_flag:
            return CompiledScript(self, "g")
        actions: list[str] = []
        order: float | None = None
        tags: list[str] = []

        def take(found: re.Match[str]) -> str:
            tags.append(found[1])
            return ""

        flags = replace_delimited(_TAG, ">", take, self.flag)
        for item in (trim(each) for tag in tags for each in tag.split(",")):
            if item.startswith(_ORDER):
                order = parse_int(item.removeprefix(_ORDER))
            else:
                actions.append(item)
        return CompiledScript(self, flags, frozenset(actions), order)


@dataclass(frozen=True, slots=True)
class CompiledScript:
    """A script with its flags, actions and order apart."""

    script: RegexScript
    flags: str
    actions: frozenset[str] = frozenset()
    order: float | None = None

    def has(self, action: str) -> bool:
        """True if an action is asked for, by tag or (``@@action``) by the output text."""
        return action in self.actions or self.script.out.startswith(f"@@{action}")

    @property
    def moves(self) -> bool:
        """True if matches are moved to the top or the bottom."""
        return self.has("move_top") or self.has("move_bottom")

    def regex_flags(self) -> str:
        """The flags JavaScript gets: only known ones, each once, and at least one."""
        flags = self.flags or "g"
        if self.moves:
            flags = flags.replace("g", "", 1)
        kept = "".join(dict.fromkeys(flag for flag in trim(flags) if flag in _FLAGS))
        return kept or "u"


def in_order(scripts: Sequence[CompiledScript]) -> Sequence[CompiledScript]:
    """Scripts by their order, highest first, if any has one; otherwise in the given order."""
    if all(script.order is None for script in scripts):
        return scripts
    return sort_descending(scripts, lambda script: script.order or 0)


def read_scripts(value: object, where: str, warn: Warn | None = None) -> list[RegexScript]:
    """Read a list of scripts or an export file; what is not a script is reported and left out.

    Args:
        value: A list of scripts, or RisuAI's export file.
        where: Where the scripts come from, for warnings.
        warn: Called with each warning.
    """
    if is_mapping(value) and value.get("type") == FILE_TYPE:
        value = value.get("data")
    if value and not is_sequence(value) and warn is not None:
        warn(f"the regex scripts of {where} are left out: they must be a list, not {type(value).__name__}")
    scripts: list[RegexScript] = []
    for number, item in enumerate(value if is_sequence(value) else ()):
        if is_mapping(item):
            scripts.append(RegexScript.from_json(item))
        elif warn is not None:
            warn(f"regex script {number} of {where} is left out: it must be an object, not {type(item).__name__}")
    return scripts


def write_scripts(scripts: Iterable[RegexScript]) -> JsonObject:
    """Write scripts as RisuAI's export file."""
    listed = tuple(scripts)
    return {"type": FILE_TYPE, "data": [script.to_json() for script in listed]}


def scripts_of(context: CBSContext, preset: object = (), *, warn: Warn | None = None) -> list[RegexScript]:
    """Return the scripts in force: the preset's (its ``regex``), the character's, those of enabled modules.

    Args:
        context: The character and the enabled modules.
        preset: The preset's ``regex`` list.
        warn: Called with each warning.
    """
    return [*read_scripts(preset, "the preset", warn), *_of_character(context, warn), *_of_modules(context, warn)]


def translation_scripts_of(context: CBSContext, *, warn: Warn | None = None) -> list[RegexScript]:
    """Return the scripts for translated texts: those of enabled modules, then the character's; none without one.

    Args:
        context: The character and the enabled modules.
        warn: Called with each warning.
    """
    if context.character is None:
        return []
    return [*_of_modules(context, warn), *_of_character(context, warn)]


def _of_character(context: CBSContext, warn: Warn | None) -> list[RegexScript]:
    character = context.character
    return [] if character is None else read_scripts(character.raw.get("customscript"), "the character", warn)


def _of_modules(context: CBSContext, warn: Warn | None) -> list[RegexScript]:
    return [
        script
        for module in context.enabled_modules
        for script in read_scripts(module.raw.get("regex"), f"module {module.name or module.id}", warn)
    ]
