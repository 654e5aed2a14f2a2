"""What users do in a chat besides asking for replies: they type, run commands, click buttons and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit._text.js_regex import JSRegexSyntaxError
from tavernkit.risu_ai._context import RisuAIContext
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat
from tavernkit.risu_ai._regex_scripts import run_translation_scripts, translation_scripts_of
from tavernkit.risu_ai._sending.exchange import SendError
from tavernkit.risu_ai._state import RisuState
from tavernkit.risu_ai._steps.prepare import find_speaker, take_message
from tavernkit.risu_ai._triggers.build_triggers import click_button, run_build_triggers, run_command, shown_text
from tavernkit.risu_ai.errors import TriggerError
from tavernkit.stores._variables import InMemoryVariablesStore, VariablesOverlay

if TYPE_CHECKING:
    from tavernkit.risu_ai._builder import Builder

TRIGGER_FAILED = "trigger_failed"


class Operation:
    """Something that happens to a chat. What it changes is kept here until the caller stores it."""

    def __init__(
        self, builder: Builder, context: RisuAIContext, *, session: tuple[object, ...] | None = None, stamp: object = ""
    ) -> None:
        """Prepare an operation.

        Args:
            builder: Builds the prompts.
            context: The chat and everything else as it is before.
            session: Whose script results and Lua scripts are used; by default those of the context's chat.
            stamp: Goes into the ids of replies, so that one in the place of another has an id of its own.
        """
        self._builder = builder
        self._session = (context.session, context.variables) if session is None else (session, None)
        self._stamp = stamp
        self.variables = VariablesOverlay(context.variables or InMemoryVariablesStore())
        """What the operation does to the variables."""
        # One sequence of random numbers, and one set of variables, for all its prompts.
        self._context = context.replace(random=context.random_source, seed=None, variables=self.variables)
        self.chat = context.chat
        self.warnings: list[str] = []
        self.error: SendError | None = None

    @property
    def character(self) -> RisuCharacter:
        """The selected character or group, with what triggers changed."""
        return self._context.owner

    @property
    def members(self) -> tuple[RisuCharacter, ...]:
        """The members of a group, with what triggers changed."""
        return tuple(self._context.members)

    @property
    def settings(self) -> Settings:
        """The settings, with the personas and the preset in force."""
        return self._context.settings

    def take_message(self) -> bool:
        """Store the user's message before a speaker is chosen; False if an input trigger failed."""
        if not self._context.message and not self._context.say_nothing:
            return True
        state = self._state_with_speaker()
        try:
            take_message(state)
        except TriggerError as error:
            if self._context.strict:
                raise
            self._trigger_failed(error)
        finally:
            self._finish(state)
        self._context = self._context.replace(message="", say_nothing=False)
        return self.error is None

    def command(self, line: str) -> bool:
        """Run a command line; False if it has an unknown command: what came before that one stays done."""
        state = self._state_with_speaker()
        try:
            return run_command(state, line)
        finally:
            self._finish(state)

    def run_trigger(self, name: str, trigger_id: str | None = None) -> None:
        """Run the manual triggers with a name, like a click on their element; groups have none.

        Args:
            name: The name of the triggers.
            trigger_id: The id of the clicked element, which triggers can read.
        """
        if self._context.owner.is_group:
            return
        state = self._state_with_speaker()
        try:
            run_build_triggers(state, "manual", name=name, trigger_id=trigger_id)
        finally:
            self._finish(state)

    def click(self, name: str) -> None:
        """Call the Lua handlers of a button; groups have none."""
        if self._context.owner.is_group:
            return
        state = self._state_with_speaker()
        try:
            click_button(state, name)
        finally:
            self._finish(state)

    def display(self, index: int) -> str:
        """Return what the screen would show of a message, or of the greeting (-1), before Markdown."""
        state = self._state_with_speaker()
        try:
            return shown_text(state, index)
        finally:
            state.variables.changes().apply(self.variables)

    def expand(self, text: str) -> str:
        """Expand a text of the application; macros that would write variables stay in it."""
        return self._state_with_speaker().texts(text)

    def translated(self, text: str) -> str:
        """Run the scripts for translated texts over a translation."""
        state = self._state_with_speaker()
        try:
            return run_translation_scripts(
                text, translation_scripts_of(state.texts.context, warn=self._warn), warn=self._warn
            )
        except JSRegexSyntaxError as error:
            self._warn(f"a script for translations has no effect: {error}")
            return text

    def _state_with_speaker(self) -> RisuState:
        state = self._new_state(self._context.replace(history=self.chat))
        find_speaker(state, chained=False)
        return state

    def _finish(self, state: RisuState) -> None:
        self.warnings += [*state.warnings, *state.log.left_out]
        self._keep(state)
        self._keep_changes(state)

    def _trigger_failed(self, error: TriggerError) -> None:
        self.error = SendError(TRIGGER_FAILED, str(error), cause=error)

    def _keep_changes(self, state: RisuState) -> None:
        """Let the next prompt see what triggers changed about characters and personas."""
        seen, context = state.texts.context, self._context
        changes: dict[str, object] = {}
        if seen.character is not context.owner:
            changes["character"] = seen.character
        if isinstance(seen.speaker, RisuCharacter) and context.owner.is_group:
            changes["members"] = [seen.speaker if each.id == seen.speaker.id else each for each in context.members]
        prompt = seen.settings.persona_prompt
        if seen.personas != context.settings.personas:
            changes["settings"] = context.settings.replace(personas=seen.personas)
        if prompt is not None and prompt != context.active_settings.persona_prompt:
            settings = changes.get("settings", context.settings)
            assert isinstance(settings, Settings)
            changes["settings"] = settings.replace(persona_prompt=prompt)
        if changes:
            self._context = context.replace(**changes)

    def _see(self, state: RisuState, chat: RisuChat) -> None:
        state.see_chat(chat)
        self._keep(state)

    def _new_state(self, context: RisuAIContext) -> RisuState:
        state = self._builder.make_state(context)
        state.session, state.session_owner = self._session
        state.sending = True
        return state

    def _keep(self, state: RisuState) -> None:
        """Take over what a build or a reply did to the chat and the variables."""
        self.chat = state.chat
        state.variables.changes().apply(self.variables)

    def _warn(self, message: str) -> None:
        self.warnings.append(message)
        if self._context.warn is not None:
            self._context.warn(message)
