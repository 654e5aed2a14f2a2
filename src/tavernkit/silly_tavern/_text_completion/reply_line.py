"""The end of a text prompt, before the reply."""

from __future__ import annotations

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import added
from tavernkit.silly_tavern._provenance import TITLES, source
from tavernkit.silly_tavern._templates.formatting import InstructFormatter, Line
from tavernkit.silly_tavern._templates.templates import NOBODY
from tavernkit.silly_tavern._text_completion.segments import Origin, Segment, text_of

REPLY = Origin(
    "replyLine",
    "assistant",
    source("compilation", "reply line", "replyLine", "the line of the reply", "the reply follows it"),
    "replyLine",
)
QUIET = Origin(
    "quietPrompt",
    "system",
    source("compilation", "quiet prompt", "quietPrompt", TITLES["quietPrompt"], "asked for in this generation only"),
    "quietPrompt",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLine:
    """The line that is added to the newest message.

    ``answers_user`` is True if the stored chat ends with a user message, ``only_message`` if it has just one.
    """

    generation_type: str
    user_name: str
    character_name: str
    formatter: InstructFormatter | None
    bias: str = ""
    quiet_prompt: str = ""
    quiet_name: str = ""
    loud: bool = False
    force_name: bool = True
    answers_user: bool = False
    only_message: bool = False

    def add_to(self, segments: list[Segment]) -> None:
        """Add the line to an item's segments."""
        if self.quiet_prompt:
            segments.append(Segment(self._quiet_text(), QUIET))
            if self.formatter is None and not self.loud:
                return
        if self.formatter is not None:
            if self.generation_type != "continue":
                segments.append(Segment(self._instruct_line(self.formatter), REPLY))
        else:
            self._add_names(segments)

    def alone(self) -> str:
        """Return the line alone, for counting."""
        segments: list[Segment] = []
        self.add_to(segments)
        return text_of(segments)

    def _quiet_text(self) -> str:
        if self.formatter is None:
            return "\n" + self.quiet_prompt
        return self.formatter.message(Line(self.user_name, self.quiet_prompt, narrator=True)).text

    def _instruct_line(self, formatter: InstructFormatter) -> str:
        impersonate = self.generation_type == "impersonate"
        quiet = bool(self.quiet_prompt) and self.generation_type == "quiet"
        if quiet and not self.loud and not impersonate:
            name = self.quiet_name or NOBODY
        else:
            name = self.user_name if impersonate else self.character_name
        return formatter.reply_line(name, impersonate=impersonate, bias=self.bias, quiet=quiet, loud=self.loud)

    def _add_names(self, segments: list[Segment]) -> None:
        continuing = self.generation_type == "continue"
        if self.generation_type == "impersonate":
            _end_line(segments)
            segments.append(Segment(self.user_name + ":", REPLY))
        if self.force_name and not (continuing and self.only_message):
            _end_line(segments)
            if not (continuing and self.answers_user):
                segments.append(Segment(self.character_name + added(":", "always_force_name2"), REPLY))


def _end_line(segments: list[Segment]) -> None:
    if not text_of(segments).endswith("\n"):
        segments.append(Segment("\n", REPLY))
