"""Runs triggers, edit listeners, buttons and command lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TypedDict, Unpack

from tavernkit._arguments import require_choice
from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegexSyntaxError
from tavernkit._text.js_values import UNDEFINED, JSError, json_parse, json_stringify, to_string
from tavernkit._values import FrozenJson, Json, JsonObject, is_object, thaw
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.risu_ai._budget import MessageCounter
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._cbs.engine import CBSEngine
from tavernkit.risu_ai._triggers.commands import run_line
from tavernkit.risu_ai._triggers.host import RefusingHost, TriggerHost
from tavernkit.risu_ai._triggers.limits import RunAbortedError, TriggerFailedError, TriggerLimits
from tavernkit.risu_ai._triggers.lua.runner import LuaRunner
from tavernkit.risu_ai._triggers.lua.sandbox import LuaSandboxes
from tavernkit.risu_ai._triggers.result import (
    Outcome,
    PromptAdditions,
    Reloads,
    StoredState,
    TriggerEvent,
    TriggerResult,
)
from tavernkit.risu_ai._triggers.run import Run, RunArguments, run_stored
from tavernkit.risu_ai._triggers.world import World
from tavernkit.risu_ai.errors import TriggerError

MODES = ("start", "manual", "output", "input", "display", "request")
EDIT_KINDS = ("editRequest", "editDisplay", "editInput", "editOutput", "editProcess")
"""What Lua listeners can edit. There are no listeners for ``editProcess``, the edit of texts for a prompt."""
_FAILURES = (TriggerFailedError, JSRegexSyntaxError, JSError, RecursionError)


class RunOptions(TypedDict, total=False):
    """Options of every call besides the context; see ``TriggerEngine``."""

    host: TriggerHost
    count_tokens: Callable[[str], int] | None
    selected_persona: int
    warn: Warn
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of a command line: the last pipe, ``False`` if a command was unknown, or None."""

    value: str | bool | None
    """The result of the command line."""
    stored: StoredState
    """What the application must store."""
    error: TriggerError | None = None
    """Why the run ended early, if it did."""
    events: Sequence[TriggerEvent] = ()
    """What was done, requested or refused."""
    reloads: Reloads = field(default_factory=Reloads)
    """What RisuAI would redraw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditResult:
    """The result of Lua edit listeners for a text or a list of messages."""

    data: Json
    """The edited text or messages."""
    stored: StoredState
    """What the application must store."""
    lua_errors: int = 0
    """How many Lua scripts failed."""
    events: Sequence[TriggerEvent] = ()
    """What was done, requested or refused."""
    reloads: Reloads = field(default_factory=Reloads)
    """What RisuAI would redraw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ButtonResult:
    """What Lua button handlers did; ``handled`` is false when there are no Lua triggers."""

    handled: bool
    result: Json
    """What the handler returned."""
    stop_sending: bool
    """True if nothing should be sent."""
    stored: StoredState
    """What the application must store."""
    error: TriggerError | None = None
    """Why the run ended early, if it did."""
    lua_errors: int = 0
    """How many Lua scripts failed."""
    events: Sequence[TriggerEvent] = ()
    """What was done, requested or refused."""
    reloads: Reloads = field(default_factory=Reloads)
    """What RisuAI would redraw."""


class TriggerEngine:
    """Runs the triggers of characters and modules. Inputs are never changed: results have the new state.

    An engine keeps compiled triggers and, like RisuAI, the Lua sandboxes: the global variables of a script survive
    between calls, in a worker process, unless a script was stopped or many other sandboxes have been used since. Use
    one engine for each user's application; it may be shared between threads. ``fix_stale_closures`` fixes RisuAI's bugs
    with ``stopChat`` and similar functions in Lua scripts that are called again.

    Every call takes these options: ``host`` answers for the application (default: the engine's), ``count_tokens``
    counts for the current model (default: RisuAI's tokenizer for ``settings.model``), ``selected_persona`` is the index
    of the selected persona in ``context.personas``, ``warn`` is called with each warning, and with ``strict`` RisuAI's
    errors are raised.

    Args:
        cbs: Evaluates CBS; by default a new engine.
        host: Answers requests of scripts; by default everything is refused.
        limits: Limits on runs.
        fix_stale_closures: Repair these bugs.
    """

    def __init__(
        self,
        *,
        cbs: CBSEngine | None = None,
        host: TriggerHost | None = None,
        limits: TriggerLimits | None = None,
        fix_stale_closures: bool = False,
    ) -> None:
        self.cbs = CBSEngine() if cbs is None else cbs
        self.host: TriggerHost = RefusingHost() if host is None else host
        self.limits = TriggerLimits() if limits is None else limits
        self._lua = LuaSandboxes(fix_stale_closures=fix_stale_closures)

    def run(
        self,
        context: CBSContext,
        mode: str,
        *,
        name: str = "",
        trigger_id: str | None = None,
        display_data: str | None = None,
        temp_variables: Mapping[str, Json] | None = None,
        recursion: int = 0,
        additions: PromptAdditions | None = None,
        stop_sending: bool = False,
        **options: Unpack[RunOptions],
    ) -> TriggerResult:
        """Run the triggers of a mode, or those with a name.

        Args:
            context: The chat and its context.
            mode: ``start``, ``manual``, ``output``, ``input``, ``display`` or ``request``.
            name: Run the triggers with this name.
            trigger_id: The id of the clicked element, which triggers can read.
            display_data: The text a ``display`` run edits, or the JSON text of the messages a ``request`` run edits.
            temp_variables: Variables of this run alone.
            recursion: How many runs this one is nested in.
            additions: What earlier runs added to the prompt.
            stop_sending: True if an earlier run stopped the send.
            options: Options of every call; see the class.
        """
        require_choice("mode", mode, MODES)
        world = self._world(context, options)
        given = additions or PromptAdditions()
        arguments = RunArguments(
            mode=mode,
            name=name,
            trigger_id=trigger_id,
            recursion=recursion,
            display_mode=mode in {"display", "request"},
            display_data=display_data,
            temp_variables={key: thaw(value) for key, value in (temp_variables or {}).items()},
            additions={
                "start": given.start,
                "historyend": given.historyend,
                "promptend": given.promptend,
                **given.elsewhere,
            },
            stop_sending=stop_sending,
        )
        run = Run(world, arguments, LuaRunner(self._lua, world))
        outcome: Outcome = "ok"
        error: TriggerError | None = None
        try:
            if not run.run():
                outcome = "none"
        except RunAbortedError:
            outcome = "aborted"
        except _FAILURES as failure:
            outcome, error = "error", self._fail(world, failure, mode)
        return _result(run, outcome, error, keeps_temp=temp_variables is not None)

    def edit(
        self,
        context: CBSContext,
        kind: str,
        data: FrozenJson,
        *,
        index: int | None = None,
        **options: Unpack[RunOptions],
    ) -> EditResult:
        """Let the Lua listeners of a kind edit a text, or (``editRequest``) the list of messages.

        Args:
            context: The chat and its context.
            kind: ``editRequest``, ``editDisplay``, ``editInput``, ``editOutput`` or ``editProcess``.
            data: The text or the messages.
            index: The index of the text's message, -1 for none; listeners get it as ``meta.index``.
            options: Options of every call; see the class.

        Raises:
            ConfigError: There is no such kind.
        """
        if kind not in EDIT_KINDS:
            raise ConfigError(f"kind must be one of {', '.join(EDIT_KINDS)}, not {kind!r}", code="UNKNOWN_EDIT_KIND")
        world = self._world(context, options)
        meta: JsonObject = {} if index is None else {"index": index}
        try:
            edited = LuaRunner(self._lua, world).edit(kind, thaw(data), meta)
        except _FAILURES as failure:
            self._fail(world, failure, kind)
            edited = thaw(data)
        return EditResult(
            data=edited,
            stored=world.stored(),
            lua_errors=world.lua_errors,
            events=tuple(world.log.events),
            reloads=world.reloads(),
        )

    def edit_text(
        self, context: CBSContext, kind: str, text: str, *, index: int = -1, **options: Unpack[RunOptions]
    ) -> EditResult:
        """Run everything before the regex scripts of a text: Lua listeners and, for displayed texts, display triggers.

        If a display trigger fails, the listeners' result is kept.

        Args:
            context: The chat and its context.
            kind: ``editDisplay``, ``editInput``, ``editOutput`` or ``editProcess``.
            text: The text.
            index: The index of the text's message, -1 for none.
            options: Options of every call; see the class.
        """
        edited = self.edit(context, kind, text, index=index, **options)
        if kind != "editDisplay":
            return edited
        shown = to_string(edited.data)
        result = self.run(edited.stored.context, "display", display_data=shown, **options)
        return dataclasses.replace(
            edited,
            data=shown if result.display_data is None else result.display_data,
            stored=result.stored,
            events=(*edited.events, *result.events),
        )

    def edit_request(
        self, context: CBSContext, messages: Sequence[Mapping[str, FrozenJson]], **options: Unpack[RunOptions]
    ) -> list[JsonObject]:
        """Run ``request`` triggers over the messages of a request; on any error they stay unchanged.

        Args:
            context: The chat and its context.
            messages: The messages of the request.
            options: Options of every call; see the class.
        """
        before = [{key: thaw(value) for key, value in message.items()} for message in messages]
        result = self.run(context, "request", display_data=json_stringify(before), **options)
        if not result.ok or result.display_data is None:
            return before
        try:
            edited = json_parse(result.display_data)
        except JSError:
            return before
        return [each for each in edited if is_object(each)] if isinstance(edited, list) else before

    def click(self, context: CBSContext, data: str, **options: Unpack[RunOptions]) -> ButtonResult:
        """Call the Lua handlers of a button (``risu-btn``).

        Args:
            context: The chat and its context.
            data: The button's data.
            options: Options of every call; see the class.
        """
        world = self._world(context, options)
        error = None
        handled, value, stop = False, None, False
        try:
            handled, value, stop = LuaRunner(self._lua, world).click(data)
        except _FAILURES as failure:
            handled, error = True, self._fail(world, failure, "onButtonClick")
        return ButtonResult(
            handled=handled,
            result=value,
            stop_sending=stop,
            stored=world.stored(),
            error=error,
            lua_errors=world.lua_errors,
            events=tuple(world.log.events),
            reloads=world.reloads(),
        )

    def command(self, context: CBSContext, line: str, **options: Unpack[RunOptions]) -> CommandResult:
        """Run a command line (``/send hello | /echo``) on the stored chat.

        Args:
            context: The chat and its context.
            line: The command line.
            options: Options of every call; see the class.
        """
        world = self._world(context, options)
        lua = LuaRunner(self._lua, world)
        value: str | bool | None = None
        error = None
        try:
            result = run_line(world, line, lambda name: run_stored(world, lua, name))
            value = None if result is UNDEFINED else result
        except _FAILURES as failure:
            error = self._fail(world, failure, "command")
        return CommandResult(
            value=value,
            stored=world.stored(),
            error=error,
            events=tuple(world.log.events),
            reloads=world.reloads(),
        )

    def _world(self, context: CBSContext, options: RunOptions) -> World:
        return World(
            context,
            cbs=self.cbs,
            host=options.get("host", self.host),
            limits=self.limits,
            count_tokens=options.get("count_tokens") or MessageCounter(context.settings.model or "").text,
            warn=options.get("warn", log_warning),
            strict=options.get("strict", False),
            selected_persona=options.get("selected_persona", 0),
        )

    def _fail(self, world: World, failure: Exception, mode: str) -> TriggerError:
        error = world.error(failure, mode)
        error.stored = world.stored()
        if world.strict:
            raise error from failure
        world.warn(str(error))
        return error


def _result(run: Run, outcome: Outcome, error: TriggerError | None, *, keeps_temp: bool) -> TriggerResult:
    world = run.world
    ended = outcome == "ok"
    additions = run.prompt_additions() if ended else PromptAdditions()
    variables = run.variables if ended else world.variables
    texts = (additions.start, additions.historyend, additions.promptend)
    return TriggerResult(
        outcome=outcome,
        chat=run.result_chat() if ended else world.chat,
        stored=world.stored(),
        variables=variables.changed(),
        removed_variables=variables.removed(),
        additions=additions,
        tokens=sum([world.count_tokens(text) for text in texts if text]),
        stop_sending=ended and run.stop_sending,
        send_ai_prompt=ended and run.send_ai_prompt,
        display_data=run.display_data if ended else None,
        temp_variables=dict(run.temp_variables) if ended and keeps_temp else None,
        trigger_id=world.trigger_id,
        error=error,
        events=tuple(world.log.events),
        events_dropped=world.log.dropped,
        reloads=world.reloads(),
    )


def run_triggers(
    context: CBSContext,
    mode: str,
    *,
    engine: TriggerEngine | None = None,
    name: str = "",
    **options: Unpack[RunOptions],
) -> TriggerResult:
    """Run the triggers of a mode once; see ``TriggerEngine.run()``. Pass an engine to keep Lua scripts alive.

    Args:
        context: The character, chat and variables.
        mode: When they run: ``start``, ``output``, ``manual``, …
        engine: The engine to run them; by default a new one.
        name: Run only triggers with this name.
        options: Options of every call; see the class.
    """
    return (TriggerEngine() if engine is None else engine).run(context, mode, name=name, **options)
