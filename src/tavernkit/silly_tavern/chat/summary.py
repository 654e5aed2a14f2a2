"""The summary that the Summarize extension stored in a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tavernkit.silly_tavern.chat.chat_message import ChatMessage
from tavernkit.silly_tavern.chat.extension_prompts import SUMMARY, ExtensionPrompt
from tavernkit.silly_tavern.macros.substitution import Substitution
from tavernkit.text.js_values import to_number, trim, truthy

EXTENSION = "memory"
"""Its name among the extensions that can be switched off."""


@dataclass(frozen=True, slots=True)
class SummarySettings:
    """``extension_settings.memory``: the template of the summary and its place."""

    template: str = "[Summary: {{summary}}]"
    position: int | float = 0
    depth: int | float = 2
    role: int | float = 0
    scan: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> SummarySettings:
        """Read the settings; what is missing has its default."""
        template = data.get("template")
        return cls(
            template=template if isinstance(template, str) else cls().template,
            position=to_number(data.get("position", 0)),
            depth=to_number(data.get("depth", 2)),
            role=to_number(data.get("role", 0)),
            scan=truthy(data.get("scan")),
        )


def stored_summary(chat: Sequence[ChatMessage]) -> tuple[str, int]:
    """Return the newest summary of a stored chat and the line it is on. The last line's never counts."""
    for index in range(len(chat) - 2, -1, -1):
        extra = chat[index].extra
        memory = extra.get("memory") if extra else None
        if memory is not None and truthy(memory):
            # A summary that is no text breaks the extension's reading of the chat.
            return (memory, index) if isinstance(memory, str) else ("", -1)
    return "", -1


def summary_prompt(text: str, line: int, settings: SummarySettings, macros: Substitution) -> ExtensionPrompt | None:
    """Make the registered text of a summary; nothing if there is none."""
    summary = trim(text)
    if not summary:
        return None
    template = settings.template
    value = macros.with_macros(template, {"summary": summary}) if template else "Summary: " + summary
    return ExtensionPrompt(
        SUMMARY,
        value,
        settings.position,
        settings.depth,
        settings.role,
        settings.scan,
        kind="summary",
        reason=f"summary stored on message {line}",
    )
