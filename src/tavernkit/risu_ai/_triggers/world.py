"""The application's stored state while triggers run, shared by a run and its nested runs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TypeVar

from tavernkit._text.js_values import to_string
from tavernkit._values import FrozenJson, JsonObject
from tavernkit.errors import Warn
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.engine import CBSEngine
from tavernkit.risu_ai._lorebook import LorebookEngine, LorebookResult, ScanInput, lore_of
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai._triggers.host import AlertKind, HostRefusedError, LLMReply, TriggerHost
from tavernkit.risu_ai._triggers.limits import Budget, TriggerFailedError, TriggerLimits
from tavernkit.risu_ai._triggers.program import acting_character
from tavernkit.risu_ai._triggers.result import EventLog, Reloads, StoredState, TriggerEvent
from tavernkit.risu_ai._triggers.variables import ScriptState
from tavernkit.risu_ai.errors import TriggerError

T = TypeVar("T")

_SHOWN = 80


class World:
    """The application as triggers see it: effects write here, and the caller stores the result."""

    def __init__(
        self,
        context: CBSContext,
        *,
        cbs: CBSEngine,
        host: TriggerHost,
        limits: TriggerLimits,
        count_tokens: Callable[[str], int],
        warn: Warn,
        strict: bool,
        selected_persona: int = 0,
    ) -> None:
        self.variables = ScriptState.over(context.variables)
        self._context = context.replace(
            variables=self.variables,
            speaker=acting_character(context),
            writes="keep",
            chat_index=-1,
            role=None,
        )
        self.cbs_engine = cbs
        self.host = host
        self.budget = Budget(limits)
        self.count_tokens = count_tokens
        self.warn = warn
        self.strict = strict
        self.selected_persona = selected_persona
        self.log = EventLog(limits.events)
        self.reload_screen = 0
        self.reload_messages: dict[str, int] = {}
        self.trigger = ""
        self.effect = ""
        self.lua_errors = 0

    @property
    def context(self) -> CBSContext:
        """Everything stored, as texts see it."""
        return self._context

    @property
    def character(self) -> RisuCharacter:
        """The acting character."""
        return acting_character(self._context) or RisuCharacter()

    @property
    def selected(self) -> RisuCharacter:
        """The selected character: in a group not the one who acts, but the group."""
        return self._context.character or self.character

    @property
    def chat(self) -> RisuChat:
        """The stored chat."""
        return self._context.chat

    @chat.setter
    def chat(self, chat: RisuChat) -> None:
        self._context = self._context.replace(chat=chat)

    @property
    def trigger_id(self) -> str | None:
        """The current trigger id."""
        return self._context.trigger_id

    @trigger_id.setter
    def trigger_id(self, value: str | None) -> None:
        if value != self._context.trigger_id:
            self._context = self._context.replace(trigger_id=value)

    def set_messages(self, messages: tuple[RisuMessage, ...]) -> None:
        """Store other messages."""
        self.budget.count("messages", len(messages), self.budget.limits.messages)
        self.chat = dataclasses.replace(self.chat, messages=messages)

    def set_character(self, character: RisuCharacter) -> None:
        """Store the acting character."""
        context = self._context
        old = self.character
        characters = tuple(character if each is old or each.id == old.id != "" else each for each in context.characters)
        selected = context.character
        if selected is None or not selected.is_group:
            self._context = context.replace(char=character, speaker=character, characters=characters)
        else:
            self._context = context.replace(speaker=character, characters=characters)

    def set_selected(self, character: RisuCharacter) -> None:
        """Store the selected character or group."""
        if self.selected.is_group:
            self._context = self._context.replace(char=character)
        else:
            self.set_character(character)

    def set_persona(self, prompt: str) -> bool:
        """Replace the text of the selected persona, and the active one; return False if there is no such persona."""
        personas, index = self._context.personas, self.selected_persona
        if not 0 <= index < len(personas):
            return False
        persona = dataclasses.replace(personas[index], prompt=prompt)
        self._context = self._context.replace(
            personas=(*personas[:index], persona, *personas[index + 1 :]),
            settings=dataclasses.replace(self._context.settings, persona_prompt=prompt),
        )
        return True

    @property
    def persona_prompt(self) -> str:
        """The active text, else that of the selected persona."""
        if self._context.settings.persona_prompt:
            return self._context.settings.persona_prompt
        personas, index = self._context.personas, self.selected_persona
        return (personas[index].prompt or "") if 0 <= index < len(personas) else ""

    def cbs(self, text: object) -> str:
        """Expand a text with what is stored; anything but a text makes RisuAI throw.

        Local and temporary variables, and the run's own messages, are invisible in it.
        """
        if not isinstance(text, str):
            raise TriggerFailedError("a text is missing")
        if "{" not in text and "<" not in text:
            return text
        expanded = self.cbs_engine.expand(text, self._context, warn=self.warn, strict=self.strict)
        return self.budget.text(expanded)

    def event(self, kind: str, *detail: FrozenJson, refused: bool = False) -> None:
        """Record an event."""
        self.log.add(TriggerEvent(kind, detail, self.trigger, self.effect, refused))

    def ask_host(self, kind: str, call: Callable[[], T], default: T, *detail: FrozenJson) -> T:
        """Call a host method; a refusal is reported and gives the default."""
        self.budget.host_call()
        started = time.thread_time()
        try:
            answer = call()
        except HostRefusedError as refusal:
            self.event(kind, *detail, refused=True)
            self.warn(f"{self.where}wants {refusal}: the application does not offer that")
            return default
        finally:
            self.budget.spend(started - time.thread_time())
        self.event(kind, *detail)
        return answer

    def ask(self, text: str) -> str:
        """Let the user type something."""
        return self.ask_host("ask", lambda: self.host.ask(text), "", text)

    def select(self, options: list[str], title: str | None = None) -> str:
        """Let the user choose."""
        return self.ask_host("select", lambda: self.host.select(options, title), "0", options, title)

    def show(self, text: str, kind: AlertKind = "normal") -> None:
        """Show a text."""
        self.ask_host("alert", lambda: self.host.alert(kind, text), None, kind, text)

    def similarity(self, query: str, texts: list[str]) -> list[str]:
        """Rank texts."""
        return [*self.ask_host("similarity", lambda: self.host.similarity(query, texts), (), query, texts)]

    def ask_model(self, messages: list[JsonObject], model: str) -> LLMReply:
        """Ask a model; a host without one counts as a failed model."""
        refused = LLMReply("fail", "no model is available")
        return self.ask_host("llm", lambda: self.host.llm(messages, model), refused, messages, model)

    def make_image(self, prompt: str, negative: str, character: str) -> str | None:
        """Make a picture; returns the tag that shows it."""
        made = self.ask_host("image", lambda: self.host.image(prompt, negative, character), None, prompt, negative)
        return None if made is None else f"{{{{inlay::{made}}}}}"

    def scan_lore(self, token_budget: float | None = None) -> LorebookResult:
        """Find the active lore of the stored chat; by default within the budget of the settings."""
        context = self._context
        lore = lore_of(context, warn=self.warn)
        settings = lore.settings
        if token_budget is not None:
            settings = dataclasses.replace(settings, token_budget=token_budget)
        return LorebookEngine().scan(
            ScanInput(
                entries=lore.entries,
                messages=lore.messages,
                settings=settings,
                greeting_index=context.chat.greeting_index,
                count_tokens=self.count_tokens,
                random=context.random,
                chat_variable=context.chat_variable,
                warn=self.warn,
            )
        )

    def reload_message(self, index: object) -> None:
        """Record that a message would be redrawn."""
        name = to_string(index)
        self.reload_messages[name] = self.reload_messages.get(name, 0) + 1

    @property
    def where(self) -> str:
        """Which trigger and effect are at work, to begin a sentence."""
        trigger = f"trigger {self.trigger!r:.{_SHOWN}}" if self.trigger else "a trigger"
        return f"{trigger} ({self.effect}) " if self.effect else f"{trigger} "

    def error(self, failure: Exception, mode: str) -> TriggerError:
        """Make the public error of a failure."""
        error = TriggerError(f"{self.where}failed: {failure}", trigger_type=mode, effect_type=self.effect or None)
        error.__cause__ = failure
        return error

    def stored(self) -> StoredState:
        """What the application has to keep when nothing runs any more: its context shares the variables."""
        variables = self.variables
        return StoredState(context=self._context, variables=variables.changed(), removed=variables.removed())

    def reloads(self) -> Reloads:
        """What would be drawn again."""
        return Reloads(screen=self.reload_screen, messages=dict(self.reload_messages))
