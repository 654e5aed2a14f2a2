"""The legacy engine: SillyTavern's macros before Macros 2.0, still available as a setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from tavernkit._macros import size_of
from tavernkit._text.js_values import own_keys, utf16_length
from tavernkit._text.traced import expanded, join
from tavernkit.errors import MacroError, StrictModeError
from tavernkit.silly_tavern._chat.authors_note import depth_prompt_of
from tavernkit.silly_tavern._macros.builtin import settings
from tavernkit.silly_tavern._macros.builtin.utility import chat_name_hash
from tavernkit.silly_tavern._macros.call import Diagnostic, MacroCall, OutOfRoomError, Report, to_text
from tavernkit.silly_tavern._macros.card_macros import CardMacros
from tavernkit.silly_tavern._macros.engine import Expander
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.legacy_passes import (
    AFTER_ENVIRONMENT,
    BEFORE_ENVIRONMENT,
    MARKERS,
    Finder,
    Pass,
    exactly,
)
from tavernkit.silly_tavern._macros.nodes import MacroNode
from tavernkit.silly_tavern._macros.registry import MacroDefinition
from tavernkit.silly_tavern._macros.run import Budget, DynamicMacro, Expansion, Overrides, refused
from tavernkit.silly_tavern._macros.source import Source

_MAX_PATTERNS = 512


_LEFT_OVER = re.compile(r"\{\{([^{}\n]{1,80})\}\}")
_NAME_END = re.compile(r"[:\s]")
_UNCLOSED = re.compile(r"\{\{[^\n]{0,40}")
_LISTED = 3
"""How many left-over braces a message shows."""


class LegacyMacroEngine(Expander):
    """Expands texts as SillyTavern does with Macros 2.0 disabled: pass by pass over the whole text.

    Later passes expand the results of earlier ones. ``macros`` are macros of extensions; they override those passed to
    ``expand()``.

    >>> from tavernkit.silly_tavern._macros import MacroEnvironment
    >>> LegacyMacroEngine().expand("<USER> meets {{char}}.", MacroEnvironment(user_name="Ann", character_name="Bel"))
    'Ann meets Bel.'
    """

    def __init__(self, macros: Mapping[str, DynamicMacro] | None = None) -> None:
        self._macros = dict(macros or {})

    def run(self, text: str, environment: MacroEnvironment, overrides: Overrides, send: Report) -> str:
        """Expand a text that is not empty."""
        budget = environment.budget
        if budget is not None and budget.spent:
            return refused(text, budget, send)
        run = LegacyRun(self._macros, environment, overrides, send, text)
        try:
            expanded = run.expand_inside(text)
        finally:
            run.close()
            if budget is not None:
                budget.spend(run.budget.work, run.budget.produced)
        if budget is not None and not budget.keep(size_of(expanded)):
            return refused(text, budget, send)
        if "{{" in expanded:
            _report_left_over(run, expanded)
        return expanded


def _report_left_over(run: LegacyRun, text: str) -> None:
    """Report unknown macros, without duplicates, and braces that are not macros."""
    names = {_NAME_END.split(found[1], maxsplit=1)[0] for found in _LEFT_OVER.finditer(text)}
    for name in sorted(names):
        if name.lower() not in run.overrides.leave:
            run.report(
                Diagnostic(kind="unknown_macro", message=f"unknown macro {{{{{name}}}}} stays as text", macro=name)
            )
    rest = _LEFT_OVER.sub("", text)
    if "{{" in rest:
        left = [found[0] for found in islice(_UNCLOSED.finditer(rest), _LISTED)]
        message = f"macro braces stay as text: {', '.join(map(repr, left))}"
        run.report(Diagnostic(kind="unconsumed", message=message, macro=left[0], remaining=tuple(left)))


class LegacyRun(Expansion):
    """An expansion by the legacy engine.

    ``before_pass`` is the text of the running pass, and ``at`` the position of the current call.
    """

    def __init__(
        self,
        registered: Mapping[str, DynamicMacro],
        environment: MacroEnvironment,
        overrides: Overrides,
        send: Report,
        text: str,
        *,
        budget: Budget | None = None,
        where: str = "",
    ) -> None:
        super().__init__(environment, overrides, send, text, budget=budget, where=where)
        self._registered = registered
        self.before_pass = text
        self.at = 0
        self._measured = (0, 0)
        self.chat_hash = self._find_chat_hash()

    def fork(self, text: str, overrides: Overrides, where: str) -> LegacyRun:
        """Return an expansion of another text, within the limits of this one."""
        return LegacyRun(
            self._registered, self.environment, overrides, self.send, text, budget=self.budget, where=where
        )

    def make_cards(self) -> CardMacros:
        """Return the texts of the card; example dialogue uses the environment's names, not the overrides."""
        # Unlike Macros 2.0.
        names = self.environment.user_name, self.environment.character_name
        return CardMacros(self.environment, self.expand_apart, *names, on=self.overrides.card)

    def expand_inside(self, text: str) -> str:
        """Run all passes over a text."""
        self._fire_card()
        if "{{" not in text and "<" not in text:
            return text
        values = self._values()
        # Markers are replaced even in a text without braces; the passes end with the last braces.
        if "<" in text:
            for find, key in MARKERS:
                text = self._apply(text, find, _ignoring_groups(values[key]))
        for each in BEFORE_ENVIRONMENT:
            if "{{" not in text:
                return text
            text = self._pass(text, each)
        for key in own_keys(values):
            if "{{" not in text:
                return text
            # Searching a lower-case copy is cheap, and most keys do not occur.
            if not key.isascii() or f"{{{{{key.lower()}}}}}" in text.lower():
                text = self._apply(text, _key_finder(key), _ignoring_groups(values[key]))
        for each in AFTER_ENVIRONMENT:
            if "{{" not in text:
                return text
            text = self._pass(text, each)
        return text

    def _pass(self, text: str, each: Pass) -> str:
        if each.needle not in text.lower():
            return text
        return self._apply(text, each.find, lambda groups: each.value(self, groups))

    def _apply(self, text: str, find: Finder, value: Callable[[Sequence[str]], object]) -> str:
        """Replace all calls. If one fails, the whole pass is abandoned, as in SillyTavern."""
        pieces: list[str] = []
        cursor = 0
        self.before_pass = text
        self._measured = (0, 0)
        try:
            for found in find(text):
                self.at = found.start
                new = to_text(value(found.groups))
                if self.post_process is not None:
                    new = self.post_process(new)
                if not self.take_output(len(new)):
                    raise OutOfRoomError
                if type(text) is not str:
                    call = text[found.start : found.end]
                    new = expanded(new, call.strip("{}<>").partition("::")[0], call)
                pieces += (text[cursor : found.start], new)
                cursor = found.end
        except (MacroError, StrictModeError):
            raise
        except OutOfRoomError:
            return text
        except Exception as error:  # noqa: BLE001  # values may be foreign code: whatever it raises, the text stays
            message = f"{text[self.at : self.at + 60]!r} failed, and all of its kind stay as text: {error}"
            self.report(Diagnostic(kind="v1_replace_failed", message=message))
            return text
        pieces.append(text[cursor:])
        return join("", pieces)

    @property
    def utf16_offset(self) -> int:
        """Return the JavaScript offset of the call, counted from the previous one."""
        at, offset = self._measured
        offset += utf16_length(self.before_pass[at : self.at])
        self._measured = (self.at, offset)
        return offset

    def _values(self) -> dict[str, Callable[[], object]]:
        """Return the keys of the environment in order.

        A later value replaces an earlier one, but has its place: so a text can contain macros that come after its key.
        """
        environment, cards = self.environment, self.cards
        values: dict[str, Callable[[], object]] = {}
        if self.overrides.original is not None:
            values["original"] = self._take_original
        if self.overrides.card:
            values |= {
                "charPrompt": cards.system_prompt,
                "charInstruction": cards.post_history_instructions,
                "charJailbreak": cards.post_history_instructions,
                "description": cards.description,
                "personality": cards.personality,
                "scenario": cards.scenario,
                "persona": cards.persona,
                "mesExamples": cards.examples,
                "mesExamplesRaw": cards.examples_raw,
                "charVersion": cards.version,
                "char_version": cards.version,
                "charDepthPrompt": cards.depth_prompt,
                "creatorNotes": cards.creator_notes,
            }
        values |= {
            "user": lambda: self.user_name,
            "char": lambda: self.character_name,
            "group": lambda: self._group(muted=True),
            "charIfNotGroup": lambda: self._group(muted=True),
            "groupNotMuted": lambda: self._group(muted=False),
            "notChar": self._not_char,
            "model": lambda: environment.model,
        }
        for name, macro in (self.overrides.macros or {}).items():
            values[name] = self._macro(name, macro)
        values |= {
            "isMobile": lambda: environment.is_mobile,
            "lastGenerationType": lambda: environment.memory.last_generation_type,
            "authorsNote": lambda: environment.notes.chat,
            "charAuthorsNote": lambda: environment.notes.character,
            "defaultAuthorsNote": lambda: environment.notes.default,
            "summary": lambda: settings.summary(environment),
            "defaultExpression": lambda: settings.default_expression(environment),
            "lastExpression": lambda: environment.extensions.expressions.last.get(self.character_name, ""),
            "availableExpressions": lambda: ", ".join(environment.extensions.expressions.labels),
            "charPrefix": lambda: settings.image_prefix(environment, negative=False),
            "charNegativePrefix": lambda: settings.image_prefix(environment, negative=True),
        }
        if environment.extensions.summary is None:
            del values["summary"]
        for name, macro in self._registered.items():
            values[name] = self._macro(name, macro)
        return values

    def _macro(self, name: str, macro: DynamicMacro) -> Callable[[], object]:
        handler = macro.handler if isinstance(macro, MacroDefinition) else macro
        if handler is None or not callable(handler):
            return lambda: handler
        definition = MacroDefinition(name="value", handler=handler)
        node = MacroNode(
            span=(Source(f"{{{{{name}}}}}"), 0, len(name) + 4),
            name=name,
            flags="",
            target=None,
            args=(),
            frame=(name,),
            content=None,
            offset=0,
            position=0,
        )
        return lambda: handler(MacroCall(self, node, name, definition, ()))

    def _take_original(self) -> str:
        text, self.original = self.original or "", ""
        return text

    def _group(self, *, muted: bool) -> str:
        group = self.environment.group
        if self.overrides.group is not None:
            return self.overrides.group
        if group is None:
            return self.character_name
        return join(", ", group.names if muted else group.names_not_muted)

    def _not_char(self) -> str:
        # Unlike Macros 2.0: no override, muted members too, and the user last.
        group = self.environment.group
        if group is None:
            return self.user_name
        others = [name for name in group.names if name != self.character_name]
        return join(", ", (*others, self.user_name))

    def _find_chat_hash(self) -> int | float | str:
        # SillyTavern makes and stores it for every text, with or without a pick, and makes a hash of 0 again.
        memory = self.environment.memory
        if not memory.chat_id_hash:
            memory.chat_id_hash = chat_name_hash(self.environment)
        return memory.chat_id_hash or 0

    def _fire_card(self) -> None:
        """Expand the card's texts in SillyTavern's order, even unused ones: their macros may change variables."""
        environment, cards = self.environment, self.cards
        if not self.overrides.card:
            return
        card, group = environment.character, environment.group
        if card is None:
            if "{{" in environment.persona:
                cards.persona()
            return
        if group is not None and group.joins_cards:
            for join in (cards.description, cards.personality, cards.scenario, cards.examples_raw):
                join()
        for text, expand in (
            (environment.system_prompt_override or card.system_prompt, cards.system_prompt),
            (environment.examples_override or card.mes_example, cards.examples_raw),
            (card.description, cards.description),
            (card.personality, cards.personality),
            (environment.persona, cards.persona),
            (environment.scenario_override or card.scenario, cards.scenario),
            (card.post_history_instructions, cards.post_history_instructions),
            (depth_prompt_of(card).text, cards.depth_prompt),
            (card.creator_notes, cards.creator_notes),
        ):
            if "{{" in text:
                expand()
        for index, greeting in enumerate((card.first_mes, *card.alternate_greetings)):
            if "{{" in greeting:
                cards.first_message(index)


@lru_cache(maxsize=_MAX_PATTERNS)
def _key_finder(key: str) -> Finder:
    return exactly(f"{{{{{key}}}}}", ascii_only=key.isascii())


def _ignoring_groups(make: Callable[[], object]) -> Callable[[Sequence[str]], object]:
    return lambda _groups: make()
