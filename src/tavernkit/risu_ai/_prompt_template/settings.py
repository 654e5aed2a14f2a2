"""A template's own switches (RisuAI's ``promptSettings``)."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._files.json_reader import JsonReader


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSettings:
    """Switches that act only while a prompt template is in use. ``assistant_prefill`` is stored but never used."""

    assistant_prefill: str = ""
    post_end_inner_format: str = ""
    """A system message for the end of the prompt."""
    send_chat_as_system: bool = False
    """True to send the chat as system messages."""
    send_name: bool = False
    """True to put the speaker's name before every message."""
    util_override: bool = False
    """True to use the template for utility bots too, instead of RisuAI's own for them."""
    custom_chain_of_thought: bool = False
    """True leaves out RisuAI's instruction to think: the template has its own."""
    max_thought_tag_depth: float = -1
    """How many of the newest messages keep their thoughts; -1 for all."""
    trim_start_new_chat: bool = False
    """True sends the line that starts the chat to NovelAI's models too, whatever its name says."""

    @classmethod
    def from_json(cls, data: Mapping[str, object], warn: Warn = log_warning) -> PromptSettings:
        """Read the switches.

        Args:
            data: The object ``promptSettings``.
            warn: Called with each warning.
        """
        reader = JsonReader(data, "promptSettings", warn)
        return cls(
            assistant_prefill=reader.text("assistantPrefill"),
            post_end_inner_format=reader.text("postEndInnerFormat"),
            send_chat_as_system=reader.flag("sendChatAsSystem"),
            send_name=reader.flag("sendName"),
            util_override=reader.flag("utilOverride"),
            custom_chain_of_thought=reader.flag("customChainOfThought"),
            max_thought_tag_depth=reader.number("maxThoughtTagDepth", -1),
            trim_start_new_chat=reader.flag("trimStartNewChat"),
        )

    def to_json(self) -> JsonObject:
        """Write the switches with RisuAI's keys."""
        written: JsonObject = {
            "assistantPrefill": self.assistant_prefill,
            "postEndInnerFormat": self.post_end_inner_format,
            "sendChatAsSystem": self.send_chat_as_system,
            "sendName": self.send_name,
            "utilOverride": self.util_override,
            "customChainOfThought": self.custom_chain_of_thought,
            "maxThoughtTagDepth": self.max_thought_tag_depth,
        }
        if self.trim_start_new_chat:
            written["trimStartNewChat"] = True
        return written
