"""The regex scripts of one build."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence

from tavernkit._text.js_regex import JSMatch
from tavernkit._text.regex_scripts import ScriptBudget, ScriptStretches, Stretch
from tavernkit._values import LRUCache
from tavernkit.errors import Warn
from tavernkit.silly_tavern._limits import CACHED_SCRIPT_CHARACTERS, CACHED_SCRIPT_LISTS, CACHED_SCRIPT_TEXTS
from tavernkit.silly_tavern._macros.substitution import Substitution
from tavernkit.silly_tavern._scripts.regex_scripts import RegexPlacement, RegexScript, RegexScripts, Replay, run_script


class ScriptCache:
    """Caches results of scripts that do not depend on the context. Thread-safe."""

    def __init__(self) -> None:
        self.stretches = ScriptStretches(CACHED_SCRIPT_CHARACTERS)
        self._lists: LRUCache[Hashable, object] = LRUCache(CACHED_SCRIPT_LISTS)

    def list_of(self, scripts: Sequence[RegexScript], names: Hashable) -> object:
        """Return one object for all lists of scripts that do the same while the names that macros give are the same."""
        return self._lists.get_or_make((names, *map(_what_it_does, scripts)), object)


def _what_it_does(script: RegexScript) -> Hashable:
    return script.disabled, script.find_regex, script.macro_mode, script.replace_string, script.trim_strings


class ChosenScripts:
    """The prompt-stage scripts of a build by what a text is, and their keys in the cache of results."""

    def __init__(self, scripts: RegexScripts, names: tuple[str, str], cache: ScriptCache) -> None:
        self._scripts = scripts
        self._names = names
        self._cache = cache
        self._min_depths = sorted({each.min_depth for each in scripts.active if each.min_depth is not None})
        self._max_depths = sorted({each.max_depth for each in scripts.active if each.max_depth is not None})
        self._chosen: dict[Hashable, tuple[Sequence[RegexScript], object]] = {}

    def of(self, placement: RegexPlacement, depth: float | None) -> tuple[Sequence[RegexScript], object]:
        """Return the scripts for a text and their key; depths between two limits are equivalent.

        Args:
            placement: What the text is.
            depth: How far it is from the last message.
        """
        alike = (
            placement,
            None if depth is None else (bisect_right(self._min_depths, depth), bisect_left(self._max_depths, depth)),
        )
        chosen = self._chosen.get(alike)
        if chosen is None:
            scripts = [each for each in self._scripts.active if each.applies_to(placement, is_prompt=True, depth=depth)]
            chosen = self._chosen[alike] = scripts, self._cache.list_of(scripts, self._names)
        return chosen

    @property
    def deepest(self) -> float:
        """The greatest depth that a script checks; -1 if none does."""
        return max((*self._min_depths, *self._max_depths), default=-1)

    def result(self, text: str, *, is_user: bool) -> Stretch | None:
        """Return the cached result of all scripts for a message, if none of them checks depths.

        Args:
            text: The message.
            is_user: True if it is the user's.
        """
        if self.deepest >= 0:
            return None
        scripts, key = self.of(placement_of(is_user=is_user), math.inf)
        return self._cache.stretches.known(key, len(scripts), text)


def placement_of(*, is_user: bool) -> RegexPlacement:
    """Return what a message is to scripts."""
    return RegexPlacement.USER_INPUT if is_user else RegexPlacement.AI_OUTPUT


class PromptScripts:
    """Regex scripts bound to a build's macros, by what a text is. ``cache`` has earlier results."""

    def __init__(self, scripts: RegexScripts, macros: Substitution, warn: Warn, cache: ScriptCache) -> None:
        self._scripts = scripts
        self._macros = macros
        self._warn = warn
        self._cache = cache
        self._budget = ScriptBudget()
        self._varied = 0
        self._names = macros.names
        self._chosen = ChosenScripts(scripts, self._names, cache)
        self._expanded: dict[str, str] = {}
        """Texts of scripts that depend only on the names, expanded."""

    @classmethod
    def of(
        cls, scripts: RegexScripts | None, macros: Substitution, warn: Warn, cache: ScriptCache
    ) -> PromptScripts | None:
        """Bind scripts; nothing if there are none."""
        return cls(scripts, macros, warn, cache) if scripts is not None and scripts.active else None

    @property
    def variations(self) -> int:
        """How often a result depended on more than the text so far."""
        return self._varied + self._budget.incidents

    @property
    def oldest(self) -> Hashable:
        """The key of the scripts for the oldest messages."""
        placements = (RegexPlacement.USER_INPUT, RegexPlacement.AI_OUTPUT)
        return tuple(self._chosen.of(each, math.inf)[1] for each in placements)

    def count_settled(self, count: int, newest_depth: int) -> int:
        """Return how many messages are deeper than any script checks, and stay so while the chat grows.

        Args:
            count: How many messages there are.
            newest_depth: The depth of the newest one.
        """
        deepest = self._chosen.deepest
        return math.floor(max(count - 1 + newest_depth - deepest, 0)) if math.isfinite(deepest) else 0

    def user_input(self, text: str) -> str:
        """Apply the scripts that change what the user typed before it is stored."""
        return self.reply(text, is_user=True)

    def reply(self, text: str, *, is_user: bool) -> str:
        """Apply the scripts that change a reply before it is stored."""
        placement = placement_of(is_user=is_user)
        return self._scripts.apply(text, placement, expand=self._macros.in_script, warn=self._warn, budget=self._budget)

    def message(self, text: str, *, is_user: bool, depth: int) -> str:
        """Apply the prompt-stage scripts for a message."""
        return self._prompt(text, placement_of(is_user=is_user), depth)

    def replay(self, is_user: bool) -> Replay:
        """Return what makes traced results of scripts for messages.

        Args:
            is_user: True if the messages are the user's.
        """
        return Replay(self._chosen.of(placement_of(is_user=is_user), math.inf)[0], self._expand)

    def reasoning(self, text: str, *, depth: int) -> str:
        """Apply the prompt-stage scripts for reasoning."""
        return self._prompt(text, RegexPlacement.REASONING, depth)

    def lore(self, text: str, depth: float | None) -> str:
        """Apply the prompt-stage scripts for lore."""
        return self._prompt(text, RegexPlacement.WORLD_INFO, depth)

    def _prompt(self, text: str, placement: RegexPlacement, depth: float | None) -> str:
        scripts, same = self._chosen.of(placement, depth)
        matches: list[JSMatch] = []

        def run(place: int, given: str) -> tuple[str, bool, Sequence[JSMatch]]:
            before = self.variations
            if matches:
                matches.clear()
            made = run_script(
                scripts[place], given, expand=self._expand, warn=self._tell, budget=self._budget, matches=matches
            )
            return made, self.variations != before, tuple(matches) if matches else ()

        if not text or not scripts:
            return text
        stretches = self._cache.stretches
        run_all = stretches.run if type(text) is str else stretches.run_traced
        return run_all(same, len(scripts), text, run, self._budget)

    def _expand(self, text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None) -> str:
        macros = self._macros
        usual = character is None and escape is None and macros.names == self._names
        known = self._expanded.get(text) if usual and type(text) is str else None
        if known is not None:
            return known
        made = macros.in_script(text, character=character, escape=escape)
        if not macros.is_plain(text):
            constant = usual and macros.depends_on_names(text)
            self._varied += not constant
            if constant and type(text) is str and len(self._expanded) < CACHED_SCRIPT_TEXTS:
                self._expanded[text] = made
        return made

    def _tell(self, message: str) -> None:
        self._varied += 1  # texts with warnings are not cached, so that the warnings are repeated
        self._warn(message)
