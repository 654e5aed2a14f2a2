"""The story string: the part of a text-completion prompt before the chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import join
from tavernkit.silly_tavern._context_template.handlebars.rendering import Piece, Template
from tavernkit.silly_tavern._context_template.template import ContextTemplate
from tavernkit.silly_tavern._instruct.template import InstructTemplate

_NAMES = frozenset({"char", "user"})


@dataclass(frozen=True, slots=True)
class StoryMacros:
    """The macro engine for story strings.

    ``live`` expands a text with the names of the chat, ``finish`` with those of the parameters.
    """

    live: Callable[[str], str]
    finish: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class StoryString:
    """A rendered story string; ``parts`` are its lines by parameter; joined, they are the whole text."""

    text: str
    parts: Sequence[Piece] = ()


def render_story_string(
    context: ContextTemplate, instruct: InstructTemplate, parameters: Mapping[str, str], macros: StoryMacros
) -> StoryString:
    """Render the story string. A malformed one raises ``InvalidContextTemplateError``."""
    pieces = Template.compile(context.story_string).render(parameters, lambda name: macros.live(f"{{{{{name}}}}}"))
    rendered = join("", (piece.text for piece in pieces))
    return _finished(macros.finish(rendered), pieces, context, instruct)


def plain_story_string(
    context: ContextTemplate,
    instruct: InstructTemplate,
    parameters: Mapping[str, str],
    expand: Callable[[str, Mapping[str, str]], str],
) -> StoryString:
    """Return the text of a malformed story string, with parameters expanded like macros."""
    return _finished(expand(context.story_string, parameters), (), context, instruct)


def _finished(text: str, pieces: Sequence[Piece], context: ContextTemplate, instruct: InstructTemplate) -> StoryString:
    text = text.lstrip("\n")
    if text and not text.endswith("\n") and not context.in_chat and _ends_line(instruct):
        text += "\n"
    return StoryString(text, tuple(split_by_parameter(text, pieces)))


def _ends_line(instruct: InstructTemplate) -> bool:
    return not instruct.enabled or (instruct.wrap and not instruct.story_string_suffix)


def split_by_parameter(text: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Split a finished text at the ends of the lines in which parameters end.

    The values are searched in order; a value that macros have changed is not found, and its text stays with the next
    one.
    """
    found: list[Piece] = []
    cut, cursor, latest = 0, 0, None
    gone: set[str] = set()  # a value that is not after one position is not after a later one
    for piece in pieces:
        value = piece.text.strip("\n")
        if piece.parameter is None or piece.parameter in _NAMES or not value:
            continue
        place = text.find(value, cursor) if value not in gone else -1
        if place < 0:
            gone.add(value)
            continue
        line_end = text.find("\n", cursor, place)
        if latest is not None:
            end = line_end + 1 if line_end >= 0 else cursor
            found.append(Piece(text[cut:end], latest))
            cut = end
        cursor, latest = place + len(value), piece.parameter
    if cut < len(text):
        found.append(Piece(text[cut:], latest))
    return found
