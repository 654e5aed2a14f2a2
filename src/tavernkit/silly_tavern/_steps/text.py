"""The steps of a text build, which writes one prompt text instead of messages."""

from __future__ import annotations

from dataclasses import replace

from tavernkit._text.traced import is_tracing, join
from tavernkit._values import EMPTY_OBJECT
from tavernkit.prompt._context import TAIL
from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.silly_tavern._caching.text_placing import insert_frozen_messages, move_behind_chat, role_names
from tavernkit.silly_tavern._chat.card_fields import START_LINE, split_examples
from tavernkit.silly_tavern._chat_completion.layout import ExampleBlock
from tavernkit.silly_tavern._chat_completion.prompt_collection import DIALOGUE_EXAMPLES
from tavernkit.silly_tavern._provenance import source
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._steps.lore import LoreStep, scan_input
from tavernkit.silly_tavern._steps.plan_assembly import put_greeting
from tavernkit.silly_tavern._steps.prepare import PrepareStep, group_names
from tavernkit.silly_tavern._steps.trimming import count_trimmed, trim_text
from tavernkit.silly_tavern._templates.formatting import FIRST, ExampleNames, InstructFormatter, Line, format_examples
from tavernkit.silly_tavern._text_completion.guidance import Guidance
from tavernkit.silly_tavern._text_completion.history_items import HistoryWriter, ReplyLine, history_items
from tavernkit.silly_tavern._text_completion.messages import inject, post_history_message
from tavernkit.silly_tavern._text_completion.plan import Origin, Segment
from tavernkit.silly_tavern._text_completion.planning import plan_text
from tavernkit.silly_tavern._world_info.scan_input import ScanInput
from tavernkit.silly_tavern._world_info.selection import file_stem


class TextPrepareStep(PrepareStep):
    """Prepares everything that lore can match, and starts ``draft``: instruct mode, guidance and the limit."""

    name = "prepare"
    send_empty = False  # SillyTavern's text completion sends nothing on behalf of the user
    tool_lines = False

    @staticmethod
    def read_examples(state: SillyTavernState, text: str, template: ExampleBlock) -> list[ExampleBlock]:
        """Read example dialogue into blocks of text."""
        heading = START_LINE if state.context.active_instruct.enabled else _example_heading(state)
        known = state.services.example_texts
        # Only traced texts are the same objects in the next turn.
        blocks = None if type(text) is str else known.get(text, heading)
        if blocks is None:
            blocks = split_examples(text, heading)
            if type(text) is not str:
                known.put(blocks, text, heading)
        return [replace(template, text=block) for block in blocks]

    def before(self, state: SillyTavernState) -> None:
        """Prepare the turn and start the draft."""
        super().before(state)
        context, draft = state.context, state.draft
        if context.active_instruct.enabled:
            draft.formatter = InstructFormatter(
                context.active_instruct,
                context.user_name,
                context.character_name,
                state.macros.sequence,
                in_group=context.group is not None,
            )
        draft.limit = context.max_context - context.max_response
        settings = context.settings.of_extension("cfg") or EMPTY_OBJECT
        guidance = Guidance.of(context.metadata, settings, file_stem(context.avatar_file))
        if guidance.in_use:
            positive, negative = state.macros(guidance.positive), state.macros(guidance.negative)
            draft.guidance = Guidance(guidance.scale, positive, negative, guidance.depth)
            draft.limit -= max(state.text_counter.text(positive), state.text_counter.text(negative))


class TextLoreStep(LoreStep):
    """Scans World Info, counting as text completion does."""

    name = "lore"

    def scan_input(self, state: SillyTavernState) -> ScanInput:
        """Return the input of the scan; its budget is a share of the draft's limit."""
        return scan_input(state, state.draft.limit, state.text_counter.text)

    def strip_examples(self, state: SillyTavernState) -> None:
        """Keep them: text completion leaves them out of the story string only."""


class TextEntriesStep(Step[SillyTavernState, NoConfig]):
    """Writes the example dialogue and chooses the system prompt. Writes ``draft``."""

    name = "entries"

    def before(self, state: SillyTavernState) -> None:
        """Write the examples, then choose the system prompt."""
        if state.half == "chat":
            return
        draft = state.draft
        draft.raw_examples = join("", (block.text for block in state.examples))
        draft.examples = _examples(state)
        draft.system = _system_prompt(state)


class StoryStringStep(Step[SillyTavernState, NoConfig]):
    """Renders the story string: card, persona and lore in the places of the context template."""

    name = "pinned_groups"

    def before(self, state: SillyTavernState) -> None:
        """Render the story string."""
        if state.half == "chat":
            return
        # Handlebars, which no chat build needs, is slow to import.
        from tavernkit.silly_tavern._text_completion.story import place_story_string

        place_story_string(state)


class TextInjectionStep(Step[SillyTavernState, NoConfig]):
    """Inserts texts at a depth into the chat, and the post-history instructions at its end."""

    name = "injection"

    def before(self, state: SillyTavernState) -> None:
        """Place everything in the chat."""
        context, draft = state.context, state.draft
        continuing = context.prompt_type == "continue"
        draft.messages = [*reversed(state.core)]
        names, prompts = role_names(context), state.extensions.in_chat()
        behind = context.volatile == TAIL
        draft.injected = inject(draft.messages, prompts, names, state.macros, continuing=continuing, behind=behind)
        if behind:
            move_behind_chat(state, continuing=continuing)
        insert_frozen_messages(state, names, continuing=continuing)
        _add_post_history(state, continuing=continuing)


class TextCompilationStep(Step[SillyTavernState, NoConfig]):
    """Writes the chat as text, and the line before the reply."""

    name = "compilation"

    def before(self, state: SillyTavernState) -> None:
        """Write the chat."""
        context, draft, turn = state.context, state.draft, state.turn
        kind = context.prompt_type
        constant = draft.formatter is None or draft.formatter.is_constant(state.macros.is_plain)
        draft.rules = _rules(state) if constant and not is_tracing() else None
        writer = HistoryWriter(draft.formatter, context.character_name, constant)
        known = state.services.written.get(draft.rules) if draft.rules is not None else None
        draft.items = history_items(draft.messages, writer, generation_type=kind, known=known or {})
        draft.reply = ReplyLine(
            generation_type=kind,
            user_name=context.user_name,
            character_name=context.character_name,
            formatter=draft.formatter,
            bias=turn.bias,
            quiet_prompt=state.quiet_prompt,
            quiet_name=context.quiet_name,
            loud=context.quiet_to_loud,
            force_name=_forces_name(state),
            answers_user=bool(turn.chat) and turn.chat[-1].is_user,
            only_message=len(turn.chat) == 1,
        )


class TextMacroExpansionStep(Step[SillyTavernState, NoConfig]):
    """Expands the last texts: the line before the chat and the alignment message."""

    name = "macro_expansion"

    def before(self, state: SillyTavernState) -> None:
        """Expand the late texts."""
        context, draft = state.context, state.draft
        start = context.active_context_template.chat_start
        if start:
            draft.start = Segment(state.macros(start + "\n"), CHAT_START)
        formatter = draft.formatter
        if formatter is not None and formatter.template.user_alignment_message:
            text = state.macros(formatter.template.user_alignment_message)
            written = formatter.message(Line(context.user_name, text, is_user=True), FIRST)
            draft.alignment = Segment(written.text, ALIGNMENT)


class TextPlanAssemblyStep(Step[SillyTavernState, NoConfig]):
    """Applies the budget, finishes the text and makes the plan."""

    name = "plan_assembly"

    def before(self, state: SillyTavernState) -> None:
        """Assemble."""
        plan_text(state)
        put_greeting(state)


class TextTrimmingStep(Step[SillyTavernState, NoConfig]):
    """Reports what the budget left out; with a generic strategy, leaves it out here.

    A text prompt never raises: missing parts give a warning.
    """

    name = "trimming"

    def before(self, state: SillyTavernState) -> None:
        """Report or trim."""
        trim_text(state)
        count_trimmed(state)


def _example_heading(state: SillyTavernState) -> str:
    """Return the line above each block of example dialogue."""
    separator = state.context.active_context_template.example_separator
    return state.macros(separator) + "\n" if separator else ""


def _examples(state: SillyTavernState) -> list[Segment]:
    context, formatter, known = state.context, state.draft.formatter, state.services.example_texts
    texts = [block.text for block in state.examples]
    written = [[text] for text in texts]
    if formatter is not None and texts:
        names = ExampleNames(
            user=context.user_name,
            character=context.character_name,
            members=group_names(state),
            in_group=context.group is not None,
            written_user=context.user_name,
            written_character=context.character_name,
        )
        written = format_examples(texts, formatter.template, names, _example_heading(state), formatter.expand, known)
    segments: list[Segment] = []
    for number, (block, pieces) in enumerate(zip(state.examples, written, strict=True)):
        segments += [Segment(text, _origin(block, number, piece)) for piece, text in enumerate(pieces)]
    return segments


def _origin(block: ExampleBlock, number: int, piece: int) -> Origin:
    return Origin(
        id=f"{DIALOGUE_EXAMPLES} {number}-{piece}",
        role="system",
        source=block.source("entries", number),
        slot=DIALOGUE_EXAMPLES,
        group="examples",
    )


def _system_prompt(state: SillyTavernState) -> str:
    """Return the card's own if preferred, else that of the settings. Instruct mode expands it a second time."""
    setting, macros = state.context.active_system_prompt, state.macros
    if not setting.enabled:
        return ""
    own = state.card.system_prompt
    text = macros.with_original(own, setting.content) if own else macros.card(setting.content)
    return macros.with_original(text, setting.content) if state.draft.formatter is not None else text


CHAT_START = Origin(
    "chatStart",
    "system",
    source("macro_expansion", "context template", "chat_start", "Chat Start", "the line before the chat"),
    "chatStart",
)
ALIGNMENT = Origin(
    "userAlignment",
    "user",
    source(
        "macro_expansion",
        "instruct template",
        "user_alignment_message",
        "User Alignment Message",
        "the chat does not begin with the user",
    ),
    "userAlignment",
)


def _rules(state: SillyTavernState) -> tuple[object, ...]:
    """Return the key of a chat and of what its messages are written by."""
    formatter, chat = state.draft.formatter, state.turn.chat
    # The first line may be a new object in every build.
    key = (id(chat[1]) if len(chat) > 1 else None, state.context.character_name)
    return key if formatter is None else (*key, *formatter.rules)


def _add_post_history(state: SillyTavernState, *, continuing: bool) -> None:
    """Add the post-history instructions; on continue, before the continued message, as in SillyTavern."""
    setting, draft, macros = state.context.active_system_prompt, state.draft, state.macros
    if not setting.enabled:
        return
    own = state.card.post_history
    text = macros.with_original(own, setting.post_history) if own else macros.card(setting.post_history)
    if not text:
        return
    draft.messages.insert(1 if continuing else 0, post_history_message(text, from_card=bool(own)))
    # On continue SillyTavern does not move these places: each then reserves the next newer message.
    if not continuing:
        draft.injected = [place + 1 for place in draft.injected]


def _forces_name(state: SillyTavernState) -> bool:
    context = state.context
    if context.prompt_type == "impersonate":
        return False
    always = context.active_context_template.always_force_name2
    # A bias of a message forces the name; that of the settings does not.
    return state.turn.bias_of_message or always or context.force_name2
