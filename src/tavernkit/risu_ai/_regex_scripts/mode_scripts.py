"""The scripts of a list that run in one mode, made ready once for all texts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex
from tavernkit._text.regex_scripts import ScriptStretches
from tavernkit._values import LRUCache
from tavernkit.risu_ai._limits import CACHED_SCRIPT_CHARACTERS, CACHED_SCRIPT_LISTS
from tavernkit.risu_ai._regex_scripts.results import ScriptResult
from tavernkit.risu_ai._regex_scripts.script import CompiledScript, RegexScript, ScriptMode, in_order

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
    out = compiled.script.out.replace("$n", "\n")
    if out.endswith(">") and "no_end_nl" not in compiled.actions:
        out += "\n"
    return ReadyScript(compiled, out, compiled.regex_flags())
