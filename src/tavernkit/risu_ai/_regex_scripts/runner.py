"""Running regex scripts over a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSMatch, JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import parse_int, trim
from tavernkit._text.regex_scripts import ScriptBudget
from tavernkit._text.traced import join
from tavernkit._text.traced_changes import replace_traced, rewritten
from tavernkit.errors import Warn
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.engine import CBSEngine
from tavernkit.risu_ai._limits import MAX_FILLED_TEXT, MAX_SCRIPT_TEXT
from tavernkit.risu_ai._regex_scripts.results import ResultKey, ScriptedTexts, ScriptResult, ScriptResults
from tavernkit.risu_ai._regex_scripts.script import (
    CompiledScript,
    FixedResult,
    ModeScripts,
    ReadyScript,
    RegexScript,
    ScriptLists,
    ScriptMode,
)

MAX_EMOTIONS = 5

GROWTH_OF_A_RUN = 8
"""Characters that a script adds to a text and that count as one more run of a script in a build."""
CACHED_RESULTS = 1000
_GROUP = re.compile(r"(?<!\$)\$([0-9]+)")

RememberedTexts: TypeAlias = dict[ResultKey, str]
"""Results of scripts, by what they depend on."""

EditHook = Callable[[str, ScriptMode, int], str]
"""What runs before the scripts: Lua listeners and display triggers."""


class _NoEffectError(Exception):
    """A script that cannot be carried out leaves the text as it is."""


class RegexScriptRunner:
    """Runs scripts over texts. Results are remembered, as RisuAI does, so that dice are not rolled again.

    Args:
        engine: Evaluates CBS in scripts; by default a new one.
        remember: How many results are kept.
        lists: Prepared lists of scripts, to share them.
    """

    def __init__(
        self, engine: CBSEngine | None = None, *, remember: int = CACHED_RESULTS, lists: ScriptLists | None = None
    ) -> None:
        self._engine = engine if engine is not None else CBSEngine()
        self._results = ScriptResults(remember)
        self._lists = lists if lists is not None else ScriptLists()
        self._modules: tuple[str, ...] | None = None
        self._last: dict[ScriptMode, tuple[tuple[RegexScript, ...], ModeScripts]] = {}

    def run(
        self,
        text: str,
        mode: ScriptMode,
        scripts: Sequence[RegexScript],
        context: CBSContext,
        *,
        index: int = -1,
        chat_role: str = "",
        before: EditHook | None = None,
        warn: Warn | None = None,
        budget: ScriptBudget | None = None,
        remembered: RememberedTexts | None = None,
    ) -> ScriptResult:
        """Run the scripts of a mode over a text.

        Args:
            text: The text.
            mode: The kind of edit; scripts of other modes are skipped.
            scripts: The scripts, in order.
            context: The data that the texts of scripts can read.
            index: The message's place in the chat, -1 for none.
            chat_role: The role of the message.
            before: Edits the text before the scripts do, in every mode but ``editprocess``.
            warn: Called with each warning.
            budget: What all texts of a build share; without one the text has its own.
            remembered: Collects results that came from the cache; a source map reads them from here.
        """
        if before is not None and mode != "editprocess":
            text = before(text, mode, index)
        chosen, version = self._scripts_of(mode, scripts), self._engine.registry.version
        if type(text) is not str:
            call = _Call(self._engine, context, index, chat_role, warn, ScriptBudget() if budget is None else budget)
            return call.run_traced(text, mode, chosen, remembered or {})
        fixed_texts = self._lists.fixed_texts
        fixed = fixed_texts.get(chosen, version, text)
        if fixed is not None:
            self._results.put(
                (fixed.expanded, mode, fixed.scripts_key, index, chat_role, context.first_message), fixed.result.text
            )
            return fixed.result
        call = _Call(self._engine, context, index, chat_role, warn, ScriptBudget() if budget is None else budget)
        given, expanded = text, call.expand(text)
        if not chosen.ready:
            return ScriptResult(expanded)
        scripts_key = chosen.key(call.expand)
        key = (expanded, mode, scripts_key, index, chat_role, context.first_message)
        known = self._results.get(key)
        if known:
            if remembered is not None:
                remembered[key] = known
            return ScriptResult(known)  # without what the scripts did besides: emotions and stored texts
        ready = chosen.ready
        text = fixed_texts.stretches.run(
            (chosen, version),
            len(ready),
            expanded,
            lambda place, given: (*call.run_telling(ready[place], given), ()),
            call.budget,
            keep_all=call.varied > 0,
        )
        result = ScriptResult(text, call.emotion_changed, tuple(call.emotions), call.stored)
        if not call.budget.spent:
            self._results.put(key, text)
            if not call.varied:
                fixed_texts.put(chosen, version, given, FixedResult(expanded, scripts_key, result))
        return result

    def fixed_result(self, text: str, mode: ScriptMode, scripts: Sequence[RegexScript]) -> FixedResult | None:
        """Return the result for a text if the scripts have run over it and it is always the same.

        Args:
            text: The text.
            mode: The mode of the scripts.
            scripts: All scripts.
        """
        return self._lists.fixed_texts.get(self._scripts_of(mode, scripts), self._engine.registry.version, text)

    def scripts_version(self, mode: ScriptMode, scripts: Sequence[RegexScript]) -> tuple[object, int]:
        """Return a key that changes with the scripts and the CBS functions.

        Args:
            mode: The kind of edit.
            scripts: The scripts.
        """
        return self._scripts_of(mode, scripts), self._engine.registry.version

    def remember(self, texts: ScriptedTexts, start: int, end: int) -> None:
        """Remember the results of texts from ``start`` to ``end``, as if the scripts had run over each.

        Args:
            texts: Results of the scripts for the messages of a chat.
            start: The first of them.
            end: Where they end.
        """
        if start == 0:
            self._results.put_texts(texts, end)
        else:
            for place in range(start, end):
                self._results.put(texts.keys[place], texts.made[place])

    def forget(self) -> None:
        """Forget all results, as RisuAI does when a trigger wrote a variable or drew the screen again."""
        self._results.clear()

    def see_modules(self, modules: tuple[str, ...]) -> None:
        """Forget all results when other modules are switched on, as RisuAI does."""
        if self._modules is not None and modules != self._modules:
            self.forget()
        self._modules = modules

    def _scripts_of(self, mode: ScriptMode, scripts: Sequence[RegexScript]) -> ModeScripts:
        """The scripts of a mode, looked up only if the list is another object than the last time."""
        last = self._last.get(mode)
        if last is None or last[0] is not scripts:
            given = tuple(scripts)
            last = self._last[mode] = (given, self._lists.get(given, mode))
        return last[1]


@dataclass(slots=True)
class _Call:
    engine: CBSEngine
    context: CBSContext
    index: int
    chat_role: str
    warn: Warn | None
    budget: ScriptBudget
    varied: int = 0
    """How often something depended on the context."""
    running: RegexScript | None = None
    expanding: CBSContext | None = None
    emotions: list[str] = field(default_factory=list[str])
    emotion_changed: bool = False
    stored: dict[int, str] = field(default_factory=dict[int, str])
    plain: str | None = None
    """A text that expands to itself, most likely the next one as well."""

    def expand(self, text: str) -> str:
        if text is self.plain:
            return text
        # A history has thousands of texts, most of which expand to the same in every context: those need none.
        constant = self.engine.constant(text)
        if constant is not None:
            if constant is text:
                self.plain = text
            return constant
        self.varied += 1
        if self.expanding is None:
            # RisuAI does not pass the speaker to its parser here: in a group ``{{char}}`` is the group.
            self.expanding = self.context.replace(chat_index=self.index, chat_role=self.chat_role, speaker=None)
        return self.engine.expand(text, self.expanding, warn=self.warn)

    def tell(self, message: str) -> None:
        """Warn. The result is not cached, so that the next run warns again."""
        self.varied += 1
        if self.warn is not None:
            self.warn(message)

    def give_up(self, message: str) -> None:
        """Warn about a search that took too long."""
        self.tell(message)
        if self.running is not None:
            self.budget.slow(self.running, self.running.comment or self.running.pattern, self.tell)

    def run_traced(
        self, text: str, mode: ScriptMode, scripts: ModeScripts, remembered: RememberedTexts
    ) -> ScriptResult:
        """Run scripts over a traced text; ``remembered`` are the results that the build did not make itself."""
        expanded = self.expand(text)
        known = None
        if remembered:
            known = remembered.get(
                (expanded, mode, scripts.key(self.expand), self.index, self.chat_role, self.context.first_message)
            )
        if known is not None:  # made with other dice, which must not be rolled now
            self.context, self.expanding = self.context.replace(random=lambda: 0.0), None
        made = expanded
        for ready in scripts.ready:
            if not self.budget.spent:
                made = self.run(ready, made)
        self.budget.end_text()
        if known is not None:
            first = scripts.ready[0].compiled.script
            return ScriptResult(made if made == known else rewritten(known, expanded, first.comment or first.pattern))
        return ScriptResult(made, self.emotion_changed, tuple(self.emotions), self.stored)

    def run_telling(self, ready: ReadyScript, text: str) -> tuple[str, bool]:
        """Run a script, and say whether its result depends on the context."""
        before = self.varied + self.budget.incidents
        made = self.run(ready, text)
        return made, self.varied + self.budget.incidents != before

    def run(self, ready: ReadyScript, text: str) -> str:
        compiled, out = ready.compiled, ready.out
        script = self.running = compiled.script
        if not script.pattern:
            return text
        if not self.budget.may_run(script, text, self.tell):
            return text
        if len(text) > MAX_SCRIPT_TEXT:
            self._report(script, f"the text has more than {MAX_SCRIPT_TEXT} characters")
            return text
        pattern = self.expand(script.pattern) if "cbs" in compiled.actions else script.pattern
        try:
            regex = ready.regex(pattern)
        except JSRegexSyntaxError as error:
            self._report(script, f"its pattern is not a regular expression ({error})")
            return text
        # Any action takes the other way, even one that does not exist. `{{data}}` is not filled in on either.
        if not out.startswith("@@") and not compiled.actions:
            return self.expand(self._replaced(regex, text, out, 0))
        try:
            return self._act(compiled, regex, text, out)
        except _NoEffectError as reason:
            self._report(script, str(reason))
            return text

    def _act(self, compiled: CompiledScript, regex: JSRegex, text: str, out: str) -> str:
        first = regex.search(text, warn=self.give_up)
        if first is None:
            if compiled.has("repeat_back"):
                self.varied += 1
                return text if self.index == -1 else self._repeat_back(regex, text, out)
            return text
        # JavaScript's test() leaves the expression where the match ended; a sticky one goes on from there.
        start = first.end if regex.sticky and not regex.global_ else 0
        if out.startswith("@@emo "):
            self._feel(trim(compiled.script.out.removeprefix("@@emo ")))
            return text
        if compiled.has("inject"):  # outside of a message, it is a replacement with the directive as its text
            self.varied += 1
            if self.index != -1:
                self._need_message()
                self.stored[self.index] = text
                return self._replaced(regex, text, "", start)
        if compiled.moves:
            return self._move(compiled, regex, text, out, first)
        return self.expand(self._replaced(regex, text, out, start))

    def _replaced(self, regex: JSRegex, text: str, out: str, start: int) -> str:
        if not start:
            if type(text) is not str and self.running is not None:
                return replace_traced(regex, text, out, self.running.comment or self.running.pattern, self.give_up)
            made = regex.replace(text, out, warn=self.give_up)
            if made is not text:  # what grows with every script takes longer and longer
                self.budget.spend(max(len(made) - len(text), 0) // GROWTH_OF_A_RUN, self.tell)
            return made
        found = regex.search(text, start, warn=self.give_up)
        return text if found is None else found.replaced(out)

    def _feel(self, name: str) -> None:
        self.varied += 1
        character = self.context.character
        known = character.emotions if character is not None else None
        if known is None or all(emotion.name != name for emotion in known):
            return
        self.emotions = [*self.emotions, name][-MAX_EMOTIONS:]  # the oldest one goes
        self.emotion_changed = True

    def _move(self, compiled: CompiledScript, regex: JSRegex, text: str, out: str, first: JSMatch) -> str:
        matches, start = [first], 0
        if regex.global_:
            # The test before has used up the first match, unless it was an empty one, which is found again.
            matches = regex.find_all(text, warn=self.give_up)[1 if first.text else 0 :]
        elif regex.sticky:
            # Each use goes on where the last one ended: what is moved comes after the test, what is removed after that.
            following = regex.search(text, first.end, warn=self.give_up)
            matches, start = ([], 0) if following is None else ([following], following.end)
        top = compiled.has("move_top")
        # Only together with the space after it; otherwise the directive stays.
        template = out.replace("@@move_top ", "", 1).replace("@@move_bottom ", "", 1)
        pieces = [self._replaced(regex, text, "", start)]
        size = 0
        for found in matches:
            pieces.append(_moved(template, found))
            size += len(pieces[-1])
            if size > MAX_FILLED_TEXT:
                raise _NoEffectError(f"it would move more than {MAX_FILLED_TEXT} characters")
        return join("\n", list(reversed(pieces)) if top else pieces)

    def _repeat_back(self, regex: JSRegex, text: str, out: str) -> str:
        source = self._earlier_text()
        found = None if source is None else regex.search(source, warn=self.give_up)
        if found is None:
            raise _NoEffectError("there is nothing to repeat in the message before")
        words = out.split(" ")  # whatever the first is: with the tag, the directive may be missing
        match words[1] if len(words) > 1 else "end":
            case "end" | "":
                return text + found.text
            case "start":
                return found.text + text
            case "end_nl":
                return text + "\n" + found.text
            case "start_nl":
                return found.text + "\n" + text
            case _:
                return text

    def _earlier_text(self) -> str | None:
        self._need_message()
        messages = self.context.chat.messages
        role = messages[self.index].role
        earlier = (messages[place] for place in range(self.index - 1, -1, -1))
        return next((message.data for message in earlier if message.role == role), self.context.greeting)

    def _need_message(self) -> None:
        if not 0 <= self.index < len(self.context.chat.messages):
            raise _NoEffectError(f"the chat has no message {self.index}")

    def _report(self, script: RegexScript, why: str) -> None:
        self.budget.warn_once(f"regex script {script.comment or script.pattern!r} has no effect: {why}", self.tell)


def _moved(template: str, found: JSMatch) -> str:
    """Fill in groups by number, then the whole match. RisuAI leaves names of groups, and CBS, as they are."""

    def group(digits: str) -> str:
        index = parse_int(digits)
        if index == 0:
            return found.text
        if index > len(found.groups):
            return f"${digits}"
        value = found.groups[int(index) - 1]
        return "undefined" if value is None else value

    pieces = _GROUP.split(template)  # text and numbers of groups by turns
    pieces[1::2] = [group(digits) for digits in pieces[1::2]]
    if sum(map(len, pieces)) > MAX_FILLED_TEXT:
        raise _NoEffectError(f"it would move more than {MAX_FILLED_TEXT} characters")
    filled = "".join(pieces)
    if filled.count("$&") * len(found.text) > MAX_FILLED_TEXT:
        raise _NoEffectError(f"it would move more than {MAX_FILLED_TEXT} characters")
    return filled.replace("$&", found.text)
