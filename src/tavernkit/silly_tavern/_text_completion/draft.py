"""A text prompt while it is being put together."""

from __future__ import annotations

from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit.silly_tavern._instruct.formatting import InstructFormatter
from tavernkit.silly_tavern._text_completion.guidance import Guidance
from tavernkit.silly_tavern._text_completion.history_items import HistoryItem
from tavernkit.silly_tavern._text_completion.messages import ChatEntry, TextMessage
from tavernkit.silly_tavern._text_completion.reply_line import ReplyLine
from tavernkit.silly_tavern._text_completion.segments import Segment


@dataclass(slots=True)
class TextDraft:
    """What the steps of a text build hand each other. Each field says which step writes it."""

    formatter: InstructFormatter | None = None
    """lore: writes with the instruct template; none when instruct mode is off."""
    guidance: Guidance = field(default_factory=Guidance)
    """lore: classifier-free guidance, its prompts expanded."""
    limit: int = 0
    """lore: what the prompt may cost."""
    raw_examples: str = ""
    """entries: example dialogue before instruct mode formats it."""
    examples: list[Segment] = field(default_factory=list[Segment])
    """entries: example dialogue, piece by piece as the budget takes it."""
    system: str = ""
    """entries: the system prompt."""
    story: list[Segment] = field(default_factory=list[Segment])
    """pinned_groups: the story string, unless it stands in the chat."""
    behind: list[TextMessage] = field(default_factory=list["TextMessage"])
    """pinned_groups: what ``volatile="tail"`` takes out of the story string, in its order."""
    messages: list[ChatEntry] = field(default_factory=list["ChatEntry"])
    """injection: the chat, newest first, with everything that is in it."""
    injected: list[int] = field(default_factory=list[int])
    """injection: places in ``messages`` for which the budget makes room first."""
    items: list[HistoryItem] = field(default_factory=list[HistoryItem])
    """compilation: the messages as they are written, newest first."""
    reply: ReplyLine | None = None
    """compilation: what the prompt ends with."""
    alignment: Segment | None = None
    """macro_expansion: a message of the user for chats that do not begin with one."""
    start: Segment | None = None
    """macro_expansion: the line before the chat."""
