"""Values of the card's macros: its texts trimmed, expanded separately, joined for groups."""

from __future__ import annotations

import re
from typing import Protocol

from tavernkit._text.js_values import trim
from tavernkit._text.traced import join, substitute
from tavernkit.cards._character import Character
from tavernkit.silly_tavern._chat.authors_note import depth_prompt_of
from tavernkit.silly_tavern._chat.card_fields import START_LINE, split_examples
from tavernkit.silly_tavern._group import JoinedField, join_field
from tavernkit.silly_tavern._macros.environment import CHAT_COMPLETION_API, MacroEnvironment
from tavernkit.silly_tavern._macros.registry import MacroNames
from tavernkit.silly_tavern._templates.formatting import ExampleNames, format_examples
from tavernkit.silly_tavern._templates.templates import NAME_MACRO

_NEWLINES = re.compile("\n+")


class ExpandText(Protocol):
    """Expands a separate text; ``where`` names it for diagnostics."""

    def __call__(
        self,
        text: str,
        where: str,
        *,
        user_name: str | None = None,
        character_name: str | None = None,
        card: bool = True,
        leave: MacroNames = (),
    ) -> str:
        """Expand the text with the environment's own names, or the ones given; macros to ``leave`` are not reported."""
        ...


class CardMacros:
    """The card's texts for macros, each made on first use and cached, because making one can change variables.

    ``user_name`` and ``character_name`` are the names in example dialogue.
    """

    def __init__(
        self, environment: MacroEnvironment, expand: ExpandText, user_name: str, character_name: str, *, on: bool = True
    ) -> None:
        self._environment = environment
        self._expand = expand
        self._names = (user_name, character_name)
        self._on = on
        self._made: dict[str, str] = {}

    @property
    def card(self) -> Character:
        """The unexpanded card; an empty one if there is none or cards are disabled."""
        return (self._environment.character if self._on else None) or _NO_CARD

    def description(self) -> str:
        """The description."""
        return self._joined("description")

    def personality(self) -> str:
        """The personality."""
        return self._joined("personality")

    def scenario(self) -> str:
        """The scenario, or the chat's own."""
        return self._joined("scenario", self._environment.scenario_override)

    def examples_raw(self) -> str:
        """The example dialogue, or the chat's own, not formatted."""
        return self._joined("mes_example", self._environment.examples_override)

    def persona(self) -> str:
        """The description of the user's persona."""
        return self._field("persona", self._environment.persona) if self._on else ""

    def system_prompt(self) -> str:
        """The card's system prompt, or the chat's own, if the settings prefer it."""
        environment = self._environment
        # Without a card the chat's own prompt does not count either; the same goes for scenario and examples.
        if not environment.prefer_character_prompt or not self._has_card:
            return ""
        return self._field("system_prompt", environment.system_prompt_override or self.card.system_prompt)

    def post_history_instructions(self) -> str:
        """The card's post-history instructions, if the settings prefer them."""
        if not self._environment.prefer_character_jailbreak:
            return ""
        return self._field("post_history_instructions", self.card.post_history_instructions)

    def depth_prompt(self) -> str:
        """The card's prompt at a depth of the chat."""
        return self._field("depth_prompt", depth_prompt_of(self.card).text)

    def creator_notes(self) -> str:
        """The creator's notes."""
        return self._field("creator_notes", self.card.creator_notes)

    def first_message(self, index: int = 0) -> str:
        """Return the first message, or the alternate greeting ``index - 1``; empty if there is none."""
        if index == 0:
            return self._field("first_mes", self.card.first_mes)
        greetings = self.card.alternate_greetings
        return self._field(f"greeting {index}", greetings[index - 1]) if 0 < index <= len(greetings) else ""

    def version(self) -> str:
        """The version, as written."""
        return self.card.character_version

    def examples(self) -> str:
        """The example dialogue as it goes into a prompt."""
        if "examples" not in self._made:
            self._made["examples"] = join("", self._example_blocks())
        return self._made["examples"]

    @property
    def _has_card(self) -> bool:
        return self._on and self._environment.character is not None

    def _field(self, name: str, text: str) -> str:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._expanded(trim(text), name)
        return made

    def _expanded(self, text: str, name: str, character_name: str | None = None) -> str:
        if not text:
            return ""
        # SillyTavern uses the chat's own names here, even where the caller replaces them.
        expanded = self._expand(text, f"the card's {name}", character_name=character_name, card=False)
        if self._environment.collapse_newlines:
            expanded = substitute(_NEWLINES, "\n", expanded)
        # SillyTavern does this last: line breaks with carriage returns between them are not collapsed.
        return expanded.replace("\r", "")

    def _joined(self, name: JoinedField, override: str = "") -> str:
        """Return a field that a group may join; the chat's own text takes precedence."""
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._make_joined(name, override)
        return made

    def _make_joined(self, name: JoinedField, override: str) -> str:
        group = self._environment.group
        own: str = getattr(self.card, name)
        if not self._has_card:
            return ""
        if group is None or not group.joins_cards:
            return self._expanded(trim(override or own), name)
        return join_field(group, name, lambda text, character: self._expanded(text, name, character), override)

    def _example_blocks(self) -> list[str]:
        environment = self._environment
        instruct = environment.instruct
        chat_completion = environment.main_api == CHAT_COMPLETION_API
        formatted = instruct.enabled and not chat_completion
        separator = environment.context.example_separator
        heading = ""
        if separator and not chat_completion:
            heading = self._expand(separator, "the example separator") + "\n"
        plain_heading = START_LINE if chat_completion or formatted else heading
        blocks = split_examples(self.examples_raw(), plain_heading)
        if not formatted:
            return blocks
        group = environment.group
        # Speakers are found by the chat's own names, which the text was expanded with, but written with the caller's.
        names = ExampleNames(
            user=environment.user_name,
            character=environment.character_name,
            members=group.names if group is not None else (),
            in_group=group is not None,
            written_user=self._names[0],
            written_character=self._names[1],
        )

        def expand(text: str) -> str:
            user, character = self._names
            where = "an instruct sequence"
            return self._expand(text, where, user_name=user, character_name=character, leave=NAME_MACRO)

        written = format_examples(blocks, instruct, names, heading, expand)
        return [piece for pieces in written for piece in pieces]


_NO_CARD = Character(name="")
