"""The draft of a text prompt."""

from __future__ import annotations

from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit.silly_tavern._instruct.formatting import InstructFormatter
from tavernkit.silly_tavern._text_completion.guidance import Guidance
from tavernkit.silly_tavern._text_completion.history_items import HistoryItems
from tavernkit.silly_tavern._text_completion.messages import ChatEntry, TextMessage
from tavernkit.silly_tavern._text_completion.reply_line import ReplyLine
from tavernkit.silly_tavern._text_completion.segments import Segment


@dataclass(slots=True)
class TextDraft:
    """The state that the steps of a text build share. Each field names the step that writes it."""

    formatter: InstructFormatter | None = None
    """lore: writes with the instruct template; None if instruct mode is off."""
    guidance: Guidance = field(default_factory=Guidance)
    """lore: classifier-free guidance, its prompts expanded."""
    limit: int = 0
    """lore: the maximum tokens of the prompt."""
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
    items: HistoryItems | None = None
    """compilation: the messages as they are written, newest first."""
    reply: ReplyLine | None = None
    """compilation: what the prompt ends with."""
    alignment: Segment | None = None
    """macro_expansion: a message of the user for chats that do not begin with one."""
    start: Segment | None = None
    """macro_expansion: the line before the chat."""
