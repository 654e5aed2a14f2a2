"""A regex script as RisuAI stores it, and the scripts of a list that run in one mode, made ready once for all texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_values import parse_int, trim, truthy
from tavernkit._text.regex_scripts import ScriptStretches
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, LRUCache, is_mapping, is_sequence, thaw_object
from tavernkit.errors import Warn
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._js import replace_delimited, sort_descending
from tavernkit.risu_ai._limits import CACHED_SCRIPT_CHARACTERS, CACHED_SCRIPT_LISTS
from tavernkit.risu_ai._regex_scripts.results import ScriptResult

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
        require("data", data, Mapping[str, object], "the JSON object of a script")

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
        """The flags JavaScript gets: only known ones, each once, and ``u`` if there are none.

        A script that moves loses its first ``g``. With ``gg`` one is left, and the first match is lost.
        """
        flags = self.flags or "g"
        if self.moves:
            flags = flags.replace("g", "", 1)
        kept = "".join(dict.fromkeys(flag for flag in trim(flags) if flag in _FLAGS))
        return kept or "u"


def in_order(scripts: Sequence[CompiledScript]) -> Sequence[CompiledScript]:
    """Scripts by their order, highest first, if any has one, even one of another mode; otherwise in the given order."""
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


_OVERHEAD = 256
"""What an entry weighs besides its texts."""


@dataclass(frozen=True, slots=True)
class FixedResult:
    """The text that the scripts ran on, the key of the scripts, and their result."""

    expanded: str
    scripts_key: Hashable
    result: ScriptResult


class FixedTexts:
    """Remembers texts for all lists of scripts together. ``scripts`` is a list as it runs in a mode.

    ``version`` is that of the CBS functions, which applications may add to. ``stretches`` are for texts whose results
    depend on the context for some scripts.
    """

    def __init__(self) -> None:
        self._results: LRUCache[tuple[Hashable, int, str], FixedResult] = LRUCache(
            CACHED_SCRIPT_CHARACTERS // 2,
            lambda key, known: len(key[2]) + len(known.expanded) + len(known.result.text) + _OVERHEAD,
        )
        self.stretches = ScriptStretches(CACHED_SCRIPT_CHARACTERS // 2)

    def get(self, scripts: Hashable, version: int, text: str) -> FixedResult | None:
        """Return the result of all scripts for a text, if it is always the same."""
        return self._results.get((scripts, version, text))

    def put(self, scripts: Hashable, version: int, text: str, result: FixedResult) -> None:
        """Remember the result of all scripts for a text."""
        self._results.put((scripts, version, text), result)


@dataclass(slots=True)
class ReadyScript:
    """A script with what is the same for every text: what it puts in, and the flags JavaScript gets."""

    compiled: CompiledScript
    out: str
    flags: str
    _regex: JSRegex | None = field(default=None, repr=False, compare=False)

    def regex(self, pattern: str) -> JSRegex:
        """Compile a pattern; the script's own is compiled once, however many scripts a list has."""
        if pattern is not self.compiled.script.pattern:
            return JSRegex.compile(pattern, self.flags)
        if self._regex is None:
            self._regex = JSRegex.compile(pattern, self.flags)
        return self._regex


@dataclass(frozen=True, slots=True, eq=False)
class ModeScripts:
    """``ready`` are the scripts in the order they run; ``cbs_patterns`` are in the order of the list."""

    ready: Sequence[ReadyScript]
    cbs_patterns: Sequence[str]
    fixed_key: Hashable
    """The key of their results, without the patterns that contain CBS."""

    @classmethod
    def of(cls, scripts: Sequence[RegexScript], mode: ScriptMode) -> ModeScripts:
        """Choose and make ready. The order is that of the whole list: scripts of other modes are sorted with these."""
        chosen = [script for script in scripts if script.type == mode]
        in_force = [each for each in in_order([script.compile() for script in scripts]) if each.script.type == mode]
        key = tuple((None if _has_cbs(each) else each.pattern, each.out, each.flag, each.able_flag) for each in chosen)
        patterns = [script.pattern for script in chosen if _has_cbs(script)]
        return cls([_ready(each) for each in in_force], patterns, key)

    def key(self, expand: Callable[[str], str]) -> Hashable:
        """What the results depend on, with the CBS of patterns expanded."""
        return self.fixed_key, tuple([expand(pattern) for pattern in self.cbs_patterns])


class ScriptLists:
    """Lists of scripts made ready, and what is known of texts, shared by the chats that use them."""

    def __init__(self) -> None:
        self.fixed_texts = FixedTexts()
        self._ready: LRUCache[tuple[ScriptMode, tuple[RegexScript, ...]], ModeScripts] = LRUCache(CACHED_SCRIPT_LISTS)

    def get(self, scripts: tuple[RegexScript, ...], mode: ScriptMode) -> ModeScripts:
        """The scripts of a mode in a list."""
        return self._ready.get_or_make((mode, scripts), lambda: ModeScripts.of(scripts, mode))


def _has_cbs(script: RegexScript) -> bool:
    return "<cbs>" in script.flag


def _ready(compiled: CompiledScript) -> ReadyScript:
    out = compiled.script.out.replace("$n", "\n")  # also the beginning of `$name`
    if out.endswith(">") and "no_end_nl" not in compiled.actions:
        out += "\n"
    return ReadyScript(compiled, out, compiled.regex_flags())
