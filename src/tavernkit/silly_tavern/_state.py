"""The state that the steps of a SillyTavern build share, and the environment of its macros."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._macros import BuildBudget
from tavernkit._values import JsonObject
from tavernkit.errors import PipelineError
from tavernkit.prompt._block import Moved
from tavernkit.prompt._context import BuildState, DrawnNumbers
from tavernkit.silly_tavern._caching.frozen_lore import FrozenLine
from tavernkit.silly_tavern._chat.authors_note import AuthorsNote
from tavernkit.silly_tavern._chat.card_fields import CardTexts
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.core_chat import CoreMessage, Turn
from tavernkit.silly_tavern._chat.extension_prompts import ExtensionPrompts
from tavernkit.silly_tavern._chat.vector_storage import VectorCall
from tavernkit.silly_tavern._chat_completion.assembly import Assembled
from tavernkit.silly_tavern._chat_completion.layout import ExampleBlock, Layout
from tavernkit.silly_tavern._chat_completion.prompt_collection import PromptCollection
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._group import GroupChat
from tavernkit.silly_tavern._macros.environment import AuthorsNotes, MacroEnvironment, MacroMemory
from tavernkit.silly_tavern._macros.substitution import Substitution
from tavernkit.silly_tavern._scripts.prompt_scripts import PromptScripts
from tavernkit.silly_tavern._services import Services
from tavernkit.silly_tavern._templates.formatting import InstructFormatter
from tavernkit.silly_tavern._text_completion.assembly import AssembledText
from tavernkit.silly_tavern._text_completion.guidance import Guidance
from tavernkit.silly_tavern._text_completion.history_items import HistoryItems, ReplyLine
from tavernkit.silly_tavern._text_completion.messages import ChatEntry, TextMessage
from tavernkit.silly_tavern._text_completion.plan import Segment
from tavernkit.silly_tavern._token_counting.choice import TOKENIZERS, chosen_tokenizer
from tavernkit.silly_tavern._token_counting.messages import (
    MessageCounter,
    TextCounter,
    chat_note,
    counting_rule,
    text_note,
)
from tavernkit.silly_tavern._token_counting.vocabularies import ESTIMATE
from tavernkit.silly_tavern._world_info.result import LoreSources
from tavernkit.silly_tavern._world_info.scan_input import ReadEntry
from tavernkit.silly_tavern._world_info.selection import file_stem
from tavernkit.stores._variables import VariablesStore

if TYPE_CHECKING:
    from tavernkit.budget._report import TrimReport
    from tavernkit.silly_tavern._world_info.result import WorldInfoResult


Half: TypeAlias = Literal["story", "chat"]
"""A half of a prompt: the story string (in chat completion, the prompts around the chat), or the chat."""


@dataclass(slots=True)
class TextDraft:
    """The state that the steps of a text build share. Each field names the step that writes it."""

    formatter: InstructFormatter | None = None
    """prepare: writes with the instruct template; None if instruct mode is off."""
    guidance: Guidance = field(default_factory=Guidance)
    """prepare: classifier-free guidance, its prompts expanded."""
    limit: int = 0
    """prepare: the maximum tokens of the prompt."""
    raw_examples: str = ""
    """entries: example dialogue before instruct mode formats it."""
    examples: list[Segment] = field(default_factory=list[Segment])
    """entries: example dialogue, in pieces for the budget."""
    system: str = ""
    """entries: the system prompt."""
    story: list[Segment] = field(default_factory=list[Segment])
    """pinned_groups: the story string, unless it is in the chat."""
    behind: list[TextMessage] = field(default_factory=list["TextMessage"])
    """pinned_groups: texts that ``volatile="tail"`` removes from the story string, in order."""
    messages: list[ChatEntry] = field(default_factory=list["ChatEntry"])
    """injection: the chat, newest first, with everything that is in it."""
    injected: list[int] = field(default_factory=list[int])
    """injection: positions in ``messages`` that the budget considers first."""
    rules: tuple[object, ...] | None = None
    """compilation: the key that ``items`` are kept by for the next turn; None if macros may write each differently."""
    items: HistoryItems | None = None
    """compilation: the messages as they are written, newest first."""
    reply: ReplyLine | None = None
    """compilation: what the prompt ends with."""
    alignment: Segment | None = None
    """macro_expansion: a message of the user for chats that do not begin with one."""
    start: Segment | None = None
    """macro_expansion: the line before the chat."""


def macro_environment(
    context: SillyTavernContext,
    chat: Sequence[ChatMessage],
    variables: VariablesStore,
    memory: MacroMemory,
    random: Callable[[], float],
    budget: BuildBudget,
) -> MacroEnvironment:
    """Return the macro environment at the start of a build; the turn, the outlets and the input change later."""
    metadata, settings, preset = context.metadata, context.settings, context.active_preset
    power_user = settings.power_user
    reroll = metadata.get("pick_reroll_seed")
    return MacroEnvironment(
        user_name=context.user_name,
        character_name=context.character_name,
        character=context.card,
        persona=context.active_persona.description,
        group=GroupChat.of(context.group, context.members, context.avatar_file) if context.group is not None else None,
        chat=chat,
        chat_id=context.chat_id,
        main_chat=metadata.get("main_chat"),
        pick_reroll_seed=reroll if isinstance(reroll, (int, float, str)) else None,
        scenario_override=metadata.scenario,
        examples_override=metadata.mes_example,
        system_prompt_override=metadata.system_prompt,
        first_included_message_id=metadata.get("lastInContextMessageId"),
        variables=variables,
        memory=memory,
        main_api=context.main_api,
        model=preset.model if not context.text_completion else context.model_hint or "",
        max_context=context.max_context,
        max_response=context.max_response,
        input=context.message,
        instruct=context.active_instruct,
        system_prompt=context.active_system_prompt,
        context=context.active_context_template,
        reasoning=power_user.reasoning,
        notes=_notes(context),
        prefer_character_prompt=power_user.prefer_character_prompt,
        prefer_character_jailbreak=power_user.prefer_character_jailbreak,
        collapse_newlines=power_user.collapse_newlines,
        clock=context.clock,
        timezone=context.timezone,
        random=random,
        budget=budget,
    )


def _notes(context: SillyTavernContext) -> AuthorsNotes:
    settings = context.settings.note
    stem = file_stem(context.avatar_file)
    own = next((note.prompt for note in settings.characters if note.name == stem), "")
    return AuthorsNotes(chat=context.metadata.note_prompt or "", character=own, default=settings.default)


class SillyTavernState(BuildState[SillyTavernContext]):
    """The workspace of one build. Each attribute says which step writes it; later steps read it.

    Args:
        context: The inputs of the build.
        services: Engines and their caches, to share them between builders; by default new ones.
    """

    def __init__(self, context: SillyTavernContext, services: Services | None = None) -> None:
        super().__init__(context)
        self.services = services if services is not None else Services()
        """Services that outlive the build: engines and their caches."""
        self.numbers = DrawnNumbers(context.random) if context.random is not None and context.seed is None else None
        """The application's random numbers, if given."""
        self.random = self.random_numbers()
        """Random numbers of this build, one stream for macros and lore."""
        self.memory = context.memory.copy()
        """The macros' state; kept here until the reply has arrived."""
        self._counter: MessageCounter | None = None
        self._text_counter: TextCounter | None = None
        self.counting_note = ""
        """How far token counts may be off."""
        self.reports = True
        """False in a build for a source map, of which only the texts are wanted."""
        self.half: Half | None = None
        """The only half of a prompt that a source map asks for; None if it asks for both."""
        self.macros: Substitution = self.new_macros()
        """Expands macros; steps change its environment as the build learns more."""
        self.scripts: PromptScripts | None = None
        """prepare: regex scripts, if there are any."""
        self.turn = Turn((), "")
        """prepare: the chat as it is stored for this generation."""
        self.quiet_prompt = ""
        """prepare: the quiet prompt, expanded once."""
        self.card = CardTexts()
        """prepare: the card's texts, expanded."""
        self.core: list[CoreMessage] = []
        """prepare: the messages that may go into the prompt, oldest first."""
        self.continued_text = ""
        """prepare: the newest visible message as it is in the prompt."""
        self.read_examples: Callable[[SillyTavernState, str, ExampleBlock], list[ExampleBlock]] = _no_examples
        """prepare: reads example dialogue for chat or text completion."""
        self.examples: list[ExampleBlock] = []
        """prepare, lore: example dialogue, of the card and of lore."""
        self.extensions = ExtensionPrompts()
        """prepare, lore: the registry of extension prompts, including note, persona and lore at depth."""
        self.note: AuthorsNote | None = None
        """prepare: the author's note of this turn."""
        self.vector_calls: list[VectorCall] = []
        """prepare: the searches of Vector Storage."""
        self.vector_texts: list[str] = []
        """prepare: the messages as Vector Storage indexes them."""
        self.forced_lore: list[JsonObject] = []
        """prepare: entries that Vector Storage found."""
        self.lore_result: WorldInfoResult | None = None
        """lore: the result of the scan; a source map may give that of the plan."""
        self.lore_sources = LoreSources()
        """lore: where the entries of the scan came from."""
        self.read_entry: ReadEntry = attrgetter("content")
        """Returns the text of a lore entry."""
        self.outlets: Mapping[str, str] = {}
        """lore: texts for ``{{outlet::name}}``."""
        self.prompt_entries = PromptCollection(())
        """entries: the active prompts of the preset in order; pinned_groups merges the built-in ones into it."""
        self.draft = TextDraft()
        """text completion: the draft of the prompt; every step writes its part."""
        self.assembled_text: AssembledText | None = None
        """text completion, plan_assembly: what was placed and what was not."""
        self.frozen_lines: list[FrozenLine] = []
        """lore: lines of the history that are lore, old ones and those of this turn."""
        self.active_lore: frozenset[str] = frozenset()
        """lore: ids of the entries that fired now and are in the history."""
        self.moved: list[Moved] = []
        """lore, injection: what was moved from its place in SillyTavern's prompt."""
        self.layout: Layout | None = None
        """injection: started with the chat and injections; compilation completes it."""
        self.assembled: Assembled | None = None
        """plan_assembly: what was placed, what was not, and the rest of the budget."""
        self.trim_report: TrimReport | None = None
        """trimming: what did not fit."""

    def random_numbers(self) -> Callable[[], float]:
        """Return the random numbers of the current inputs, which hooks may have changed."""
        context, numbers = self.context, self.numbers
        if numbers is not None and context.seed is None and context.random is numbers.source:
            return numbers
        return context.random_source

    def new_macros(self) -> Substitution:
        """Bind the macro engine to the current inputs."""
        lines = tuple(self.context.log.lines)
        environment = macro_environment(
            self.context, lines, self.variables, self.memory, self.random, self.build_budget
        )
        services = self.services
        modern = self.context.settings.power_user.experimental_macro_engine
        return Substitution(
            services.macros_of(self.context.macro_registry) if modern else services.legacy_macro_engine,
            environment,
            warn=self.warn,
            strict=self.context.strict,
            macros=self.context.macro_vars,
        )

    def need_layout(self) -> Layout:
        """Return the layout; the step that creates it must have run.

        Raises:
            PipelineError: The step has not run.
        """
        if self.layout is None:
            raise PipelineError(
                "there is no layout: the injection step must run before this one", step=self.current_step
            )
        return self.layout

    @property
    def text_counter(self) -> TextCounter:
        """Counts texts as SillyTavern does in text completion, with the application's estimator if given."""
        if self._text_counter is None:
            context, estimator = self.context, self.context.token_estimator
            power_user = context.settings.power_user
            if estimator is not None:
                hint = context.model_hint
                count: Callable[[str], int] = lambda text: estimator.estimate(text, hint)  # noqa: E731  # typed
            else:
                backend = replace(context.settings.text_backend, model_list=context.model_list)
                name = TOKENIZERS.get(chosen_tokenizer(power_user.tokenizer, backend), ESTIMATE)
                vocabulary, count = self.services.vocabulary(name, context.tokenizers, self.warn)
                self.counting_note = text_note(power_user.tokenizer, backend, vocabulary)
            self._text_counter = TextCounter(count, power_user.token_padding)
        return self._text_counter

    @property
    def counter(self) -> MessageCounter:
        """Counts messages as SillyTavern does for the preset's model, with the application's estimator if given."""
        if self._counter is None:
            preset, estimator = self.context.active_preset, self.context.token_estimator
            chosen = (preset.chat_completion_source, preset.model, self.context.model_list)
            rule = counting_rule(*chosen)
            if estimator is None:
                self._counter = self.services.counter(rule, self.context.tokenizers, self.warn)
                self.counting_note = chat_note(*chosen, self._counter.vocabulary)
            else:
                hint = self.context.model_hint or preset.model
                self._counter = MessageCounter(rule, count=lambda text: estimator.estimate(text, hint))
        return self._counter


def _no_examples(_state: SillyTavernState, _text: str, _template: ExampleBlock) -> list[ExampleBlock]:
    return []
