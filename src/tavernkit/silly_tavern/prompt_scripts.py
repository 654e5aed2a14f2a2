"""The regex scripts of one build."""

from __future__ import annotations

from dataclasses import dataclass, field

from tavernkit.errors import Warn
from tavernkit.silly_tavern.regex_scripts import RegexPlacement, RegexScripts
from tavernkit.silly_tavern.substitution import Substitution
from tavernkit.text.script_budget import ScriptBudget


@dataclass(frozen=True, slots=True)
class PromptScripts:
    """Regex scripts bound to a build's macros, by what a text is."""

    scripts: RegexScripts
    macros: Substitution
    warn: Warn
    budget: ScriptBudget = field(default_factory=ScriptBudget)

    @classmethod
    def of(cls, scripts: RegexScripts | None, macros: Substitution, warn: Warn) -> PromptScripts | None:
        """Bind scripts; nothing if there are none."""
        return cls(scripts, macros, warn) if scripts is not None and scripts.active else None

    def user_input(self, text: str) -> str:
        """Apply the scripts that change what the user typed before it is stored."""
        return self.scripts.apply(
            text, RegexPlacement.USER_INPUT, expand=self.macros.in_script, warn=self.warn, budget=self.budget
        )

    def reply(self, text: str, *, is_user: bool) -> str:
        """Apply the scripts that change what the model wrote before it is stored."""
        placement = RegexPlacement.USER_INPUT if is_user else RegexPlacement.AI_OUTPUT
        return self.scripts.apply(text, placement, expand=self.macros.in_script, warn=self.warn, budget=self.budget)

    def message(self, text: str, *, is_user: bool, depth: int) -> str:
        """Apply the prompt-stage scripts for a message."""
        return self._prompt(text, RegexPlacement.USER_INPUT if is_user else RegexPlacement.AI_OUTPUT, depth)

    def reasoning(self, text: str, *, depth: int) -> str:
        """Apply the prompt-stage scripts for reasoning."""
        return self._prompt(text, RegexPlacement.REASONING, depth)

    def lore(self, text: str, depth: float | None) -> str:
        """Apply the prompt-stage scripts for lore."""
        return self._prompt(text, RegexPlacement.WORLD_INFO, depth)

    def _prompt(self, text: str, placement: RegexPlacement, depth: float | None) -> str:
        return self.scripts.apply(
            text,
            placement,
            expand=self.macros.in_script,
            is_prompt=True,
            depth=depth,
            warn=self.warn,
            budget=self.budget,
        )
