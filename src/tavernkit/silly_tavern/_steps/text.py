"""The steps of a text build, which writes one prompt text instead of messages."""

from __future__ import annotations

from tavernkit.prompt._pipeline import NoConfig, Step
from tavernkit.silly_tavern._chat_completion.layout import ExampleBlock
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._steps.lore import LoreStep, scan_input
from tavernkit.silly_tavern._steps.plan_assembly import put_greeting
from tavernkit.silly_tavern._steps.prepare import PrepareStep
from tavernkit.silly_tavern._steps.trimming import count_trimmed
from tavernkit.silly_tavern._text_completion.chat import expand_late_texts, place_in_chat, write_chat
from tavernkit.silly_tavern._text_completion.entries import write_entries
from tavernkit.silly_tavern._text_completion.planning import plan_text
from tavernkit.silly_tavern._text_completion.preparation import begin_draft, read_example_texts
from tavernkit.silly_tavern._text_completion.trimming import trim_text
from tavernkit.silly_tavern._world_info.scan_input import ScanInput


class TextPrepareStep(PrepareStep):
    """Prepares everything that lore can match, and starts ``draft``: instruct mode, guidance and the limit."""

    name = "prepare"
    send_empty = False  # SillyTavern's text completion sends nothing on behalf of the user
    tool_lines = False

    @staticmethod
    def read_examples(state: SillyTavernState, text: str, template: ExampleBlock) -> list[ExampleBlock]:
        """Read example dialogue into blocks of text."""
        return read_example_texts(state, text, template)

    def before(self, state: SillyTavernState) -> None:
        """Prepare the turn and start the draft."""
        super().before(state)
        begin_draft(state)


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
        write_entries(state)


class StoryStringStep(Step[SillyTavernState, NoConfig]):
    """Renders the story string: card, persona and lore in the places of the context template."""

    name = "pinned_groups"

    def before(self, state: SillyTavernState) -> None:
        """Render the story string."""
        # Handlebars, which no chat build needs, is slow to import.
        from tavernkit.silly_tavern._text_completion.story import tell_story

        tell_story(state)


class TextInjectionStep(Step[SillyTavernState, NoConfig]):
    """Inserts texts at a depth into the chat, and the post-history instructions at its end."""

    name = "injection"

    def before(self, state: SillyTavernState) -> None:
        """Place everything in the chat."""
        place_in_chat(state)


class TextCompilationStep(Step[SillyTavernState, NoConfig]):
    """Writes the chat as text, and the line before the reply."""

    name = "compilation"

    def before(self, state: SillyTavernState) -> None:
        """Write the chat."""
        write_chat(state)


class TextMacroExpansionStep(Step[SillyTavernState, NoConfig]):
    """Expands the last texts: the line before the chat and the alignment message."""

    name = "macro_expansion"

    def before(self, state: SillyTavernState) -> None:
        """Expand the late texts."""
        expand_late_texts(state)


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
