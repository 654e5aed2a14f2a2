"""The state that the steps of a RisuAI build share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tavernkit._text.regex_scripts import ScriptBudget
from tavernkit._values import Json
from tavernkit.errors import MaxTokensExceededError, PipelineError
from tavernkit.prompt._block import Moved
from tavernkit.prompt._context import BuildState, DrawnNumbers
from tavernkit.risu_ai._budget import Dropped, MessageCounter
from tavernkit.risu_ai._caching import FrozenLore
from tavernkit.risu_ai._chat.chat_cache import WrittenMessages
from tavernkit.risu_ai._chat.chat_log import sent_messages, with_messages, with_text
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._context import RisuAIContext
from tavernkit.risu_ai._lorebook.result import ActiveLore, LorebookResult
from tavernkit.risu_ai._memory import uses_memory
from tavernkit.risu_ai._objects import RisuChat, RisuMessage
from tavernkit.risu_ai._plan import RisuPlan
from tavernkit.risu_ai._prompt_template.card_writer import CardWriter
from tavernkit.risu_ai._prompt_template.cards import PromptSettings, TemplateCard
from tavernkit.risu_ai._prompt_template.lore_places import Positions
from tavernkit.risu_ai._prompt_template.slots import CharacterFields, Slots, Texts, character_fields
from tavernkit.risu_ai._regex_scripts.runner import RememberedTexts
from tavernkit.risu_ai._regex_scripts.script import RegexScript, ScriptMode
from tavernkit.risu_ai._services import Services
from tavernkit.risu_ai._triggers.build_triggers import edit_text
from tavernkit.risu_ai._triggers.engine import TriggerEngine
from tavernkit.risu_ai._triggers.result import PromptAdditions

if TYPE_CHECKING:
    from tavernkit.budget._report import TrimReport


class RisuState(BuildState[RisuAIContext]):
    """The workspace of one build. Each attribute says which step writes it; later steps read it.

    Args:
        context: The inputs of the build.
        services: Engines and their caches, to share them between builders; by default new ones.
    """

    def __init__(self, context: RisuAIContext, services: Services | None = None) -> None:
        super().__init__(context)
        self.services = (services if services is not None else Services()).with_macros(context.macro_registry)
        """Services that outlive the build: engines and their caches."""
        self.session, self.session_owner = context.session, context.variables
        """The key of cached script results and Lua scripts; a send has one for all its prompts."""
        self.sending = False
        """True if the prompt is part of a send, which a failing trigger ends; otherwise it is only reported."""
        self.preset = context.active_preset
        """prepare: the preset of this build (a preset chain may pick another one)."""
        self.settings = context.settings
        """prepare: the settings, switched to the preset that a preset chain picked."""
        self.chat = context.chat
        """prepare: the chat as it is stored for this generation; triggers may change it."""
        self.character = context.owner
        """prepare: who speaks: the selected character, or a member of the group."""
        self.fields: CharacterFields = character_fields(self.character)
        """prepare: the speaking character's own prompts."""
        self.numbers = DrawnNumbers(context.random) if context.random is not None and context.seed is None else None
        """The application's random numbers, if given."""
        self.texts: Texts = self.new_texts()
        """Expands texts; steps change what it sees as the build learns more."""
        self.scripts: Sequence[RegexScript] = ()
        """prepare: the active regex scripts."""
        self._script_modes: frozenset[str] | None = None
        self.runner = self.services.script_runner(None)
        """prepare: runs the scripts, with cached results of this chat."""
        self.script_budget = ScriptBudget()
        """The budget of this build's scripts."""
        self.remembered: RememberedTexts = {}
        """Script results of earlier builds of this chat that this one used."""
        self.trigger_engine: TriggerEngine = self.services.trigger_engine(None)
        """prepare: runs triggers, with the Lua scripts of this chat."""
        self.additions = PromptAdditions()
        """triggers: texts that start triggers add to the prompt."""
        self.emotions: list[str] = []
        """Emotions that scripts showed."""
        self.switches = PromptSettings()
        """prepare: the preset's switches while its template is in use, else all off."""
        self.template: Sequence[TemplateCard] | None = None
        """prepare: the cards to print, or nothing: then the preset's order is walked."""
        self.lore: Sequence[ActiveLore] = ()
        """lore: active entries with their places."""
        self.lore_result: LorebookResult | None = None
        """lore: the result of the scan."""
        self.frozen_lore: list[FrozenLore] = []
        """lore: lore that is in the chat where it fired, old entries and those of this turn."""
        self.active_lore: frozenset[str] = frozenset()
        """lore: ids of the entries that fired now and are in the chat."""
        self.moved: list[Moved] = []
        """lore, template_assembly: what was moved from its place in RisuAI's prompt."""
        self.slots = Slots()
        """cbs: texts in their slots, expanded; ``chats`` begins with examples, start line and greeting."""
        self.greeting: str | None = None
        """cbs: the character's first message as it is sent."""
        self.total = 0
        """cbs, triggers, regex_scripts: the tokens counted so far, including the reply."""
        self._sent: tuple[tuple[RisuMessage, ...], tuple[tuple[RisuMessage, ...], bool]] | None = None
        self.is_standard = False
        """True if the pipeline is RisuAI's own, without steps of the application."""
        self.written: WrittenMessages | None = None
        """regex_scripts: the end of ``slots.chats``, if other builds share it: nothing may change its messages."""
        self.stopped = False
        """triggers: True if a trigger cancelled the send."""
        self.last_memory: str | None = None
        """memory: the id of the first chat message that is still in the prompt."""
        self.memory_data: dict[str, Json] = {}
        """memory: what to store on the chat, by RisuAI's keys."""
        self.left_out: list[Dropped] = []
        """memory: chat items that memory replaces, or that became empty."""
        self.dropped: Sequence[Dropped] = ()
        """memory, plan_assembly: chat items that were left out because they did not fit."""
        self.messages: list[PromptMessage] = []
        """template_assembly: the finished list."""
        self.trim_report: TrimReport | None = None
        """plan_assembly: what was left out because it did not fit."""

    @property
    def milliseconds(self) -> int:
        """The time, as RisuAI stores it with messages."""
        return int(self.context.clock().timestamp() * 1000)

    @property
    def in_group(self) -> bool:
        """True if the selected character is a group."""
        return self.context.owner.is_group

    @property
    def template_in_use(self) -> bool:
        """True if the preset has its own template."""
        return self.preset.prompt_template is not None

    @property
    def counter(self) -> MessageCounter:
        """Counts messages as RisuAI does for the preset's model."""
        low = self.settings.raw.get("gptVisionQuality", "low") == "low"
        return self.services.counter(self.preset.ai_model, self.context.token_estimator, low_detail=low)

    def new_texts(self) -> Texts:
        """Bind the CBS engine to the current inputs."""
        context = self.context.for_texts(self.preset, self.character, self.variables)
        context = context.replace(cbs_budget=self.build_budget, random=self.numbers or context.random)
        return Texts(self.services.engine, context, warn=self.warn, strict=self.context.strict)

    def card_writer(self) -> CardWriter:
        """Return a card writer for the current state."""
        settings = self.context.settings
        return CardWriter(
            texts=self.texts,
            positions=Positions(self.lore, self.warn),
            slots=self.slots,
            fields=self.fields,
            switches=self.switches,
            jailbreak_toggle=settings.jailbreak_toggle,
            chain_of_thought=settings.chain_of_thought,
            asset_command=settings.texts.asset_command if self.character.prebuilt_asset_command else None,
            automatic_cache_point=settings.automatic_cache_point,
            warn=self.warn,
            strict=self.context.strict,
        )

    def edit_process(self, text: str, index: int, role: str) -> str:
        """Run the ``editprocess`` scripts over a text of the chat.

        Args:
            text: The text.
            index: The message's place in the chat, -1 for none.
            role: The role of the message.
        """
        return self._edit(text, "editprocess", index, role)

    def edit_output(self, text: str, index: int) -> str:
        """Run a reply through Lua, CBS and the ``editoutput`` scripts.

        Args:
            text: The reply.
            index: Its place in the chat.
        """
        return self._edit(text, "editoutput", index, "")

    def edit_input(self, text: str) -> str:
        """Run the user's message through Lua, CBS and the ``editinput`` scripts."""
        return self._edit(text, "editinput", -1, "")

    def _edit(self, text: str, mode: ScriptMode, index: int, role: str) -> str:
        if mode == "editprocess" and "{" not in text and "<" not in text and not self.has_scripts(mode):
            return text
        result = self.runner.run(
            edit_text(self, text, mode, index),
            mode,
            self.scripts,
            self.texts.context,
            index=index,
            chat_role=role,
            warn=self.warn,
            budget=self.script_budget,
            remembered=self.remembered,
        )
        self.emotions += result.emotions
        for place, stored in result.stored.items():
            messages = self.chat.messages
            if 0 <= place < len(messages) and messages[place].data != stored:
                changed = with_text(messages[place], stored)
                self.see_chat(with_messages(self.chat, (*messages[:place], changed, *messages[place + 1 :])))
        return result.text

    def has_scripts(self, mode: ScriptMode) -> bool:
        """Return True if there are scripts of a mode."""
        if self._script_modes is None:
            self._script_modes = frozenset(script.type for script in self.scripts)
        return mode in self._script_modes

    @property
    def uses_memory(self) -> bool:
        """True if the character and the settings enable long-term memory."""
        return character_fields(self.context.owner).supa_memory and uses_memory(self.context.settings.raw)

    @property
    def sent(self) -> tuple[tuple[RisuMessage, ...], bool]:
        """The messages of the chat that are not disabled, and whether one of them cut off everything before it."""
        messages = self.chat.messages
        if self._sent is None or self._sent[0] is not messages:
            disabled = self.services.chats.know(messages).disabled
            self._sent = (messages, sent_messages(self.chat, disabled))
        return self._sent[1]

    def see_chat(self, chat: RisuChat) -> None:
        """Replace the stored chat with a changed one."""
        self.chat = chat
        self.texts.see_chat(chat)

    def need_plan(self) -> RisuPlan:
        """Return the plan; the step that makes it must have run.

        Raises:
            PipelineError: The step has not run.
        """
        if not isinstance(self.plan, RisuPlan):
            raise PipelineError("there is no plan: the plan_assembly step must run first", step=self.current_step)
        return self.plan

    def refuse(self, required_tokens: int) -> None:
        """Raise for a prompt that cannot be made to fit, unless the application accepts it.

        Raises:
            MaxTokensExceededError: ``on_overflow`` is not ``return``.
        """
        if self.context.on_overflow == "return":
            limit = self.preset.max_context
            self.warn(f"the prompt needs {required_tokens} tokens of {limit}: RisuAI would refuse to send it")
            return
        raise MaxTokensExceededError(
            estimated_tokens=required_tokens, max_tokens=self.preset.max_context, step=self.current_step
        )
