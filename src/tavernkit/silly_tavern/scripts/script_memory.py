"""What regex scripts made of texts, for all builds of a builder."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tavernkit.silly_tavern.limits import CACHED_SCRIPT_CHARACTERS, CACHED_SCRIPT_LISTS
from tavernkit.silly_tavern.scripts.regex_scripts import RegexScript
from tavernkit.text.script_stretches import ScriptStretches
from tavernkit.values import LRUCache


class ScriptMemory:
    """Remembers what scripts make of a text in every context. Thread-safe."""

    def __init__(self) -> None:
        self.stretches = ScriptStretches(CACHED_SCRIPT_CHARACTERS)
        self._lists: LRUCache[Hashable, object] = LRUCache(CACHED_SCRIPT_LISTS)

    def list_of(self, scripts: Sequence[RegexScript]) -> object:
        """One object for all lists of scripts that do the same."""
        return self._lists.get_or_make(tuple(map(_what_it_does, scripts)), object)


def _what_it_does(script: RegexScript) -> Hashable:
    return script.disabled, script.find_regex, script.macro_mode, script.replace_string, script.trim_strings
