"""The scripts of a list that run in one mode, made ready once for all texts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from tavernkit.risu_ai.regex_scripts.script import CompiledScript, RegexScript, ScriptMode, in_order


@dataclass(frozen=True, slots=True)
class ReadyScript:
    """A script with what is the same for every text: what it puts in, and the flags JavaScript gets."""

    compiled: CompiledScript
    out: str
    flags: str


@dataclass(frozen=True, slots=True)
class ModeScripts:
    """``ready`` are the scripts in the order they run, ``chosen`` as they stand in ``given``, the whole list."""

    given: tuple[RegexScript, ...]
    chosen: Sequence[RegexScript]
    ready: Sequence[ReadyScript]
    fixed_key: Hashable
    """Tells their results from those of other scripts; nothing if that takes the values of CBS."""

    @classmethod
    def of(cls, scripts: tuple[RegexScript, ...], mode: ScriptMode) -> ModeScripts:
        """Choose and make ready. The order is that of the whole list: scripts of other modes are sorted with these."""
        chosen = [script for script in scripts if script.type == mode]
        in_force = [each for each in in_order([script.compile() for script in scripts]) if each.script.type == mode]
        varies = any("<cbs>" in script.flag for script in chosen)
        key = None if varies else tuple(_key(script, script.pattern) for script in chosen)
        return cls(scripts, chosen, [_ready(each) for each in in_force], key)

    def key(self, expand: Callable[[str], str]) -> Hashable:
        """What the results depend on, with the CBS of patterns expanded."""
        if self.fixed_key is not None:
            return self.fixed_key
        patterns = (expand(each.pattern) if "<cbs>" in each.flag else each.pattern for each in self.chosen)
        return tuple(_key(script, pattern) for script, pattern in zip(self.chosen, patterns, strict=True))


def _key(script: RegexScript, pattern: str) -> Hashable:
    return pattern, script.out, script.flag, script.able_flag


def _ready(compiled: CompiledScript) -> ReadyScript:
    out = compiled.script.out.replace("$n", "\n")
    if out.endswith(">") and "no_end_nl" not in compiled.actions:
        out += "\n"
    return ReadyScript(compiled, out, compiled.regex_flags())
