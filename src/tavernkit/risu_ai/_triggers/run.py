"""One run of triggers: selects them, checks their conditions and runs their effects."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Final

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, join_surrogates, to_number, to_string
from tavernkit._values import Json
from tavernkit.risu_ai._cbs.context import default_variables
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai._triggers.conditions import conditions_hold
from tavernkit.risu_ai._triggers.effects import standard_effects
from tavernkit.risu_ai._triggers.limits import RunAbortedError, TriggerFailedError
from tavernkit.risu_ai._triggers.program import ALLOWED, Effect, OwnedTrigger, all_triggers, selected
from tavernkit.risu_ai._triggers.result import PromptAdditions
from tavernkit.risu_ai._triggers.variables import LocalScopes, Value
from tavernkit.risu_ai._triggers.world import World
from tavernkit.risu_ai.errors import TriggerRecursionError

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.lua.runner import LuaRunner

LOCATIONS: Final = ("start", "historyend", "promptend")
"""Where triggers can add texts to the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments:
    """How a run was called."""

    mode: str
    name: str = ""
    trigger_id: str | None = None
    recursion: int = 0
    depth: int = 0
    display_mode: bool = False
    display_data: str | None = None
    temp_variables: dict[str, Json] = field(default_factory=dict[str, Json])
    additions: dict[str, str] = field(default_factory=lambda: dict.fromkeys(LOCATIONS, ""))
    stop_sending: bool = False


class Run:
    """The state of one run: its copies of character, chat and variables, and its decisions so far.

    ``character`` is the run's own copy. ``stale_chat`` and ``stale_variables`` are the chat inside that copy, as it was
    when the copy was made: they come back whenever the character is stored as a whole.
    """

    def __init__(self, world: World, arguments: RunArguments, lua: LuaRunner) -> None:
        self.world = world
        self.arguments = arguments
        self.lua = lua
        self.mode = arguments.mode
        self.display_mode = arguments.display_mode
        self.recursion = arguments.recursion
        self.chat: RisuChat = world.chat
        self.messages: list[RisuMessage] = list(world.chat.messages)
        self.variables = world.variables if arguments.display_mode else world.variables.copy()
        self.character: RisuCharacter = world.character
        self.stale_chat = world.chat
        self.stale_variables = world.variables.copy()
        self.additions = arguments.additions
        self.stop_sending = arguments.stop_sending
        self.send_ai_prompt = False
        self.display_data = arguments.display_data
        self.temp_variables = arguments.temp_variables
        self.locals = LocalScopes()  # of the whole run: what one trigger leaves behind, the next ones see
        self.low_level = False
        self.variables_written = False
        self.counters: dict[int, int] = {}
        self.position = 0
        self.effects: tuple[Effect, ...] = ()

    def run(self) -> bool:
        """Run all selected triggers; return True if there are any."""
        world, arguments = self.world, self.arguments
        triggers = all_triggers(world.context, self.character)
        if not triggers:
            return False
        before = world.trigger_id
        if not self.display_mode:
            world.trigger_id = arguments.trigger_id
        for owned in selected(triggers, self.mode, arguments.name):
            self._run_trigger(owned)
        # RisuAI leaves the id of a manual run, also of one inside another, and its screen clears it later.
        if not self.display_mode and self.mode != "manual":
            world.trigger_id = before
        if self.variables_written:
            world.variables.take(self.variables)
            world.reload_screen += 1
        return True

    def _run_trigger(self, owned: OwnedTrigger) -> None:
        world, trigger = self.world, owned.trigger
        world.trigger, world.effect = trigger.comment, ""
        world.budget.step()
        self.low_level = owned.low_level
        if trigger.conditions is None:
            raise TriggerFailedError("its conditions are not a list")
        if trigger.conditions and not conditions_hold(self, trigger.conditions):
            world.event("conditions_failed")
            return
        self.counters = {}
        allowed = ALLOWED.get(self.mode)
        handlers = standard_effects()
        effects = self.effects = trigger.effects
        self.position = 0
        while self.position < len(effects):
            effect = effects[self.position]
            world.budget.step()
            world.effect = effect.type
            self._enter(effect)
            if allowed is not None and effect.type not in allowed:
                self.position += 1
                continue
            handler = handlers.get(effect.type)
            if handler is not None and handler.low_level and not self.low_level:
                world.event("skipped", "low level access is needed")
            elif handler is not None:
                target = handler.function(self, effect)
                if target is not None:
                    self.position = target
                    continue
            else:
                world.event("skipped", "there is no such effect")
            self.position += 1
        world.effect = ""

    def _enter(self, effect: Effect) -> None:
        if not effect.has_indent:
            self.locals.indent = 0
        elif effect.indent is not None and effect.indent >= 0:
            self.locals.indent = effect.indent

    # Values

    def cbs(self, text: object) -> str:
        """Expand a text."""
        return self.world.cbs(text)

    def value(self, effect: Effect, name: str) -> str:
        """Return a field that is a text or the name of a variable, depending on its type field."""
        text = self.world.cbs(effect.fields.get(name))
        # Without a type it is a variable, whose text is not expanded.
        return text if effect.fields.get(f"{name}Type") == "value" else self.get(text)

    def number(self, effect: Effect, name: str) -> float:
        """Such a field as a number."""
        return to_number(self.value(effect, name))

    def name(self, effect: Effect, field_name: str) -> str:
        """A field that names a variable."""
        return self.world.cbs(effect.fields.get(field_name))

    def output(self, effect: Effect, value: Value) -> None:
        """Store the result of an effect."""
        self.set(self.name(effect, "outputVar"), value)

    def get(self, name: str) -> str:
        """Read a variable as text; ``null`` when there is none."""
        scope = self.locals.find(name)
        if scope is not None:
            return to_string(scope[name])
        value: Json = self.variables.get(name)
        if value is None:
            value = default_variables(self.character.default_variables).get(name)
        if value is None:
            value = default_variables(self.world.context.settings.template_default_variables).get(name)
        if value is None and self.display_mode:
            value = self.temp_variables.get(name)
        return "null" if value is None else to_string(value)

    def set(self, name: str, value: Value) -> None:
        """Write a variable."""
        if isinstance(value, str):
            value = join_surrogates(self.world.budget.text(value))
        if self.display_mode:
            # A variable of the chat or a local one cannot be changed here: reading still finds it first.
            self.temp_variables[name] = None if value is UNDEFINED else value
            return
        scope = self.locals.find(name)
        if scope is not None:
            scope[name] = "null" if value is None or value is UNDEFINED else value
            return
        self.variables.set(name, value)
        # RisuAI stores the whole copy: what a command has written since it was made is lost.
        self.world.variables.take(self.variables)
        self.variables_written = True
        self.world.event("variable", name, None if value is UNDEFINED else value)

    # The chat

    def add_message(self, role: str, text: str) -> None:
        """Append a message."""
        self.world.budget.count("messages", len(self.messages) + 1, self.world.budget.limits.messages)
        self.messages.append(RisuMessage(role=role, data=text))
        self.world.event("message", "added", role, text)

    def set_message(self, index: int, text: str) -> None:
        """Replace the text of a message."""
        self.messages[index] = dataclasses.replace(self.messages[index], data=text)
        self.world.event("message", "changed", index, text)

    def cut_messages(self, messages: list[RisuMessage]) -> None:
        """Keep only some messages."""
        self.world.event("message", "kept", len(messages), len(self.messages))
        self.messages = messages

    def result_chat(self) -> RisuChat:
        """The run's chat."""
        messages = tuple(self.messages)
        return self.chat if messages == self.chat.messages else dataclasses.replace(self.chat, messages=messages)

    # The character

    def change_character(self, change: Callable[[RisuCharacter], RisuCharacter], what: str) -> None:
        """Change the run's copy of the character and store it as a whole, with the chat that is in it."""
        self.character = change(self.character)
        self.world.set_character(self.character)
        self.world.chat = self.stale_chat
        self.world.variables.take(self.stale_variables)
        self.world.event("character", what)

    # The prompt

    def add_prompt(self, location: object, text: str) -> None:
        """Add a text to the prompt."""
        place = to_string(location)
        known = self.additions.get(place, "undefined")  # a text for an unknown place begins with this word
        self.additions[place] = self.world.budget.text(f"{known}{text}\n\n")
        self.world.event("prompt", place, text)

    def prompt_additions(self) -> PromptAdditions:
        """What was added."""
        elsewhere = dict(self.additions)
        return PromptAdditions(*[elsewhere.pop(place, "") for place in LOCATIONS], elsewhere=elsewhere)

    # Other runs

    def nested(self, name: object) -> None:
        """Run the triggers of a name; their chat, prompt and stop flag replace the run's own."""
        if not self._may_nest():
            return
        self.recursion += 1  # never decreased: runs next to each other and inside each other share RisuAI's limit
        arguments = RunArguments(
            mode="manual",
            name=name if isinstance(name, str) else "",  # not expanded
            recursion=self.recursion,
            depth=self.arguments.depth + 1,
            additions=self.additions,
            stop_sending=self.stop_sending,
        )
        callee = Run(self.world, arguments, self.lua)
        callee.chat, callee.messages = self.chat, list(self.messages)
        callee.variables = self.variables.copy()
        callee.character = self.character
        callee.stale_chat, callee.stale_variables = self.stale_chat, self.stale_variables.copy()
        if callee.run_inside():
            self.chat, self.messages, self.variables = callee.chat, callee.messages, callee.variables
            self.stop_sending = callee.stop_sending  # but not its wish to send again

    def run_by_name(self, name: str) -> None:
        """Run the triggers with a name as a command does: on the stored chat, which gets the result."""
        run_stored(self.world, self.lua, name, depth=self.arguments.depth + 1)

    def run_inside(self) -> bool:
        """Run as part of another run; return True if there is a result."""
        world = self.world
        trigger, effect = world.trigger, world.effect
        world.budget.nested_runs += 1
        world.event("nested_run", self.arguments.name)
        try:
            return self.run()
        except RunAbortedError:
            return False
        finally:
            world.trigger, world.effect = trigger, effect

    def _may_nest(self) -> bool:
        limits, depth = self.world.budget.limits, self.arguments.depth + 1
        if self.recursion >= limits.nested_runs and not self.low_level:
            return refuse_run(self.world, f"starts more than {limits.nested_runs} other runs", self.mode)
        return may_start(self.world, depth, self.mode)


def run_stored(world: World, lua: LuaRunner, name: str, *, depth: int = 0) -> None:
    """Run the triggers with a name on the stored chat and store the result."""
    if not may_start(world, depth, "manual"):
        return
    run = Run(world, RunArguments(mode="manual", name=name, depth=depth), lua)
    if run.run_inside():
        world.chat = run.result_chat()
        world.variables.take(run.variables)


def may_start(world: World, depth: int, mode: str) -> bool:
    """Return True if another nested run may start; a refusal is reported."""
    limits = world.budget.limits
    if world.budget.nested_runs < limits.all_nested_runs and depth <= limits.depth:
        return True
    return refuse_run(world, f"starts too many runs ({limits.all_nested_runs} in all, {limits.depth} deep)", mode)


def refuse_run(world: World, problem: str, mode: str) -> bool:
    """Skip a run."""
    if world.strict:
        raise TriggerRecursionError(world.where + problem, trigger_type=mode, effect_type=world.effect)
    world.event("skipped", "too many nested runs")
    world.warn(f"{world.where}{problem}: the run is left out")
    return False
