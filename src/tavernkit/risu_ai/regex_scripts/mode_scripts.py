"""The scripts of a list that run in one mode, made ready once for all texts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from tavernkit.risu_ai.limits import CACHED_SCRIPT_LISTS, CACHED_SCRIPT_TEXTS, LONG_SCRIPT_TEXT
from tavernkit.risu_ai.regex_scripts.results import ScriptResult
from tavernkit.risu_ai.regex_scripts.script import CompiledScript, RegexScript, ScriptMode, in_order
from tavernkit.text.js_regex import JSRegex
from tavernkit.values import LRUCache


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

    @property
    def only_replaces(self) -> bool:
        """Whether it does nothing but replace matches."""
        return not self.out.startswith("@@") and not self.compiled.actions


@dataclass(frozen=True, slots=True)
class FixedResult:
    """What scripts make of a text in every context: the text they see, and what they give."""

    expanded: str
    result: ScriptResult


class FixedResults:
    """Texts of which scripts make the same in every context, for as many chats as run these scripts.

    ``version`` is that of the CBS functions, which applications may add to.
    """

    def __init__(self) -> None:
        self._known: LRUCache[tuple[int, str], FixedResult] = LRUCache(CACHED_SCRIPT_TEXTS)

    def get(self, version: int, text: str) -> FixedResult | None:
        """What is known of a text."""
        return self._known.get((version, text))

    def put(self, version: int, text: str, result: FixedResult) -> None:
        """Remember a text, unless it is a long one."""
        if len(text) <= LONG_SCRIPT_TEXT and len(result.result.text) <= LONG_SCRIPT_TEXT:
            self._known.put((version, text), result)


@dataclass(frozen=True, slots=True)
class ModeScripts:
    """``ready`` are the scripts in the order they run, ``chosen`` as they stand in the whole list."""

    chosen: Sequence[RegexScript]
    ready: Sequence[ReadyScript]
    fixed_key: Hashable
    """Tells their results from those of other scripts; nothing if that takes the values of CBS."""
    fixed_results: FixedResults | None = field(compare=False)
    """What they always make of a text; nothing if a script does more than replace."""

    @classmethod
    def of(cls, scripts: Sequence[RegexScript], mode: ScriptMode) -> ModeScripts:
        """Choose and make ready. The order is that of the whole list: scripts of other modes are sorted with these."""
        chosen = [script for script in scripts if script.type == mode]
        in_force = [each for each in in_order([script.compile() for script in scripts]) if each.script.type == mode]
        varies = any("<cbs>" in script.flag for script in chosen)
        key = None if varies else tuple(_key(script, script.pattern) for script in chosen)
        ready = [_ready(each) for each in in_force]
        fixed = FixedResults() if key is not None and all(each.only_replaces for each in ready) else None
        return cls(chosen, ready, key, fixed)

    def key(self, expand: Callable[[str], str]) -> Hashable:
        """What the results depend on, with the CBS of patterns expanded."""
        if self.fixed_key is not None:
            return self.fixed_key
        patterns = (expand(each.pattern) if "<cbs>" in each.flag else each.pattern for each in self.chosen)
        return tuple(_key(script, pattern) for script, pattern in zip(self.chosen, patterns, strict=True))


class ScriptLists:
    """Lists of scripts made ready, shared by the chats that use them."""

    def __init__(self) -> None:
        self._ready: LRUCache[tuple[ScriptMode, tuple[RegexScript, ...]], ModeScripts] = LRUCache(CACHED_SCRIPT_LISTS)

    def get(self, scripts: tuple[RegexScript, ...], mode: ScriptMode) -> ModeScripts:
        """The scripts of a mode in a list."""
        return self._ready.get_or_make((mode, scripts), lambda: ModeScripts.of(scripts, mode))


def _key(script: RegexScript, pattern: str) -> Hashable:
    return pattern, script.out, script.flag, script.able_flag


def _ready(compiled: CompiledScript) -> ReadyScript:
    out = compiled.script.out.replace("$n", "\n")
    if out.endswith(">") and "no_end_nl" not in compiled.actions:
        out += "\n"
    return ReadyScript(compiled, out, compiled.regex_flags())
