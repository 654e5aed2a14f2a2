"""The story string of a text build."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim, utf16_sort_key
from tavernkit._text.traced import join
from tavernkit._values import FrozenJson
from tavernkit.prompt._block import Omission
from tavernkit.prompt._context import TAIL
from tavernkit.silly_tavern._caching.placing import MACRO_REASON, REWRITTEN, REWRITTEN_REASON, changes
from tavernkit.silly_tavern._caching.raw_texts import raw_texts
from tavernkit.silly_tavern._caching.text_placing import report_moved
from tavernkit.silly_tavern._chat.card_fields import IN_PROMPT
from tavernkit.silly_tavern._chat.extension_prompts import AFTER_MAIN, BEFORE_MAIN, IN_CHAT, ExtensionPrompt, joined
from tavernkit.silly_tavern._chat_completion.prompt_collection import DIALOGUE_EXAMPLES, MAIN
from tavernkit.silly_tavern._provenance import CARD_FIELD, OWN_PERSONA, TITLES, field_reason, source, title_of
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.silly_tavern._templates.handlebars.rendering import Piece, Template
from tavernkit.silly_tavern._templates.templates import ContextTemplate, InstructTemplate
from tavernkit.silly_tavern._text_completion.messages import TextMessage
from tavernkit.silly_tavern._text_completion.plan import Origin, Segment
from tavernkit.silly_tavern._world_info.result import lore_reason
from tavernkit.silly_tavern.errors import InvalidContextTemplateError

STORY_STRING = "__STORY_STRING__"
"""The registry key of a story string that is in the chat."""

TEMPLATE = Origin(
    "storyString",
    "system",
    source("pinned_groups", "context template", "story_string", "Story String", "the context template's own text"),
    "storyString",
)

_LORE = {
    "wiBefore": "worldInfoBefore",
    "loreBefore": "worldInfoBefore",
    "wiAfter": "worldInfoAfter",
    "loreAfter": "worldInfoAfter",
}
_PARTS = {
    "system": (MAIN, "system prompt", "System Prompt", "the story string asks for it"),
    "description": ("charDescription", "card field", TITLES["charDescription"], CARD_FIELD),
    "personality": ("charPersonality", "card field", TITLES["charPersonality"], CARD_FIELD),
    "scenario": ("scenario", "card field", TITLES["scenario"], CARD_FIELD),
    "persona": ("personaDescription", "persona", TITLES["personaDescription"], OWN_PERSONA),
    "anchorBefore": ("anchorBefore", "injection", "injections before the prompt", ""),
    "anchorAfter": ("anchorAfter", "injection", "injections after the prompt", ""),
    "mesExamples": (DIALOGUE_EXAMPLES, "card field", TITLES[DIALOGUE_EXAMPLES], "the story string asks for it"),
    "mesExamplesRaw": (DIALOGUE_EXAMPLES, "card field", TITLES[DIALOGUE_EXAMPLES], "the story string asks for it"),
}
"""Parameters with the identifier, kind, title and reason of their content."""

STORY_SLOTS = frozenset({TEMPLATE.slot, *_LORE.values(), *(part[0] for part in _PARTS.values())} - {DIALOGUE_EXAMPLES})
"""The slots of texts that are in the story string only."""

_ANCHORS = {"anchorBefore": BEFORE_MAIN, "anchorAfter": AFTER_MAIN}
_OTHER_NAMES = {"wiBefore": "loreBefore", "wiAfter": "loreAfter"}

_EXPECTED = (
    "system",
    "wiBefore",
    "description",
    "personality",
    "scenario",
    "wiAfter",
    "persona",
    "anchorBefore",
    "anchorAfter",
)
"""Parameters whose texts a prompt should contain; example dialogue also has another place."""


def place_story_string(state: SillyTavernState) -> None:
    """Render the story string and place it."""
    context, draft = state.context, state.draft
    template = context.active_context_template
    parameters = _parameters(state)
    if context.volatile == TAIL and not template.in_chat:
        _take_volatile(state, parameters)
    story = _render(state, parameters)
    if state.reports:
        _report_unasked(state, story, parameters)
    before, after = "", ""
    if draft.formatter is not None and not template.in_chat:
        before, after = draft.formatter.story(story.text)
    if template.in_chat:
        state.extensions.set(
            ExtensionPrompt(
                STORY_STRING,
                story.text,
                IN_CHAT,
                template.story_string_depth,
                template.story_string_role,
                kind="context template",
                reason="the story string",
            )
        )
    else:
        segments = [Segment(part.text, _origin(state, part.parameter)) for part in story.parts]
        draft.story = [Segment(before, TEMPLATE), *segments, Segment(after, TEMPLATE)]
    if context.settings.power_user.strip_examples:  # only now: the story string may show them
        draft.examples = []


def _render(state: SillyTavernState, parameters: dict[str, str]) -> StoryString:
    context, macros = state.context, state.macros
    template, instruct = context.active_context_template, context.active_instruct
    try:
        return render_story_string(template, instruct, parameters, StoryMacros(macros, macros))
    except InvalidContextTemplateError as error:
        if context.strict:
            raise
        name = f"context template {template.name!r}" if template.name else "context template"
        state.warn(f"{name}: the story string is malformed: {error}; its tags are expanded as macros")
        return plain_story_string(template, instruct, parameters, macros.with_macros)


def _report_unasked(state: SillyTavernState, story: StoryString, parameters: dict[str, str]) -> None:
    """Report texts without a place in the story string, which SillyTavern silently leaves out."""
    named = {_identifier(part.parameter) for part in story.parts}
    for parameter in _EXPECTED:
        text, identifier = trim(parameters[parameter]), _identifier(parameter)
        if text and identifier not in named and text not in story.text:
            kind = "injection" if parameter.startswith("anchor") else "prompt"
            title = title_of(_origin(state, parameter).source)
            state.omit(Omission(kind, identifier, "the story string does not ask for it", title))


def _identifier(parameter: str | None) -> str:
    return _LORE.get(parameter or "") or _PARTS.get(parameter or "", ("",))[0]


def _parameters(state: SillyTavernState) -> dict[str, str]:
    context, draft, card, lore = state.context, state.draft, state.card, state.lore_result
    lore_before, lore_after = (lore.before, lore.after) if lore is not None else ("", "")
    anchor_before, anchor_after = _anchor(state, BEFORE_MAIN), _anchor(state, AFTER_MAIN)
    in_prompt = context.active_persona.place == IN_PROMPT
    return {
        "description": card.description,
        "personality": card.personality,
        "persona": card.persona if in_prompt else "",
        "scenario": card.scenario,
        "system": draft.system,
        "char": context.character_name,
        "user": context.user_name,
        "wiBefore": lore_before,
        "wiAfter": lore_after,
        "loreBefore": lore_before,
        "loreAfter": lore_after,
        "anchorBefore": anchor_before,
        "anchorAfter": anchor_after,
        "mesExamples": join("", (segment.text for segment in draft.examples)),
        "mesExamplesRaw": draft.raw_examples,
    }


def _take_volatile(state: SillyTavernState, parameters: dict[str, str]) -> None:
    """Remove texts that change by themselves from the parameters, to go after the chat."""
    texts = raw_texts(state.context, state.lore_result)
    for parameter in _EXPECTED:
        text, origin = trim(parameters[parameter]), _origin(state, parameter)
        anchored = _anchored(state, _ANCHORS[parameter]) if parameter in _ANCHORS else ()
        rewritten = any(prompt.key in REWRITTEN for prompt in anchored)
        if text and (rewritten or changes(origin.source, texts)):
            reason = REWRITTEN_REASON if rewritten else MACRO_REASON
            state.draft.behind.append(TextMessage(name="", text=text, origin=origin, narrator=True))
            report_moved(state, origin.source, text, "in the story string", reason)
            for name in (parameter, _OTHER_NAMES.get(parameter, parameter)):
                parameters[name] = ""


def _anchored(state: SillyTavernState, position: int) -> list[ExtensionPrompt]:
    found = (prompt for prompt in state.extensions if prompt.position == position and prompt.value)
    return sorted(found, key=lambda prompt: utf16_sort_key(prompt.key))


def _anchor(state: SillyTavernState, position: int) -> str:
    text = joined(_anchored(state, position))
    if not text:
        return ""
    # Macros see line breaks around the texts, which are removed afterwards.
    text = text if text.startswith("\n") else "\n" + text
    return trim(state.macros(text if text.endswith("\n") else text + "\n"))


def _origin(state: SillyTavernState, parameter: str | None) -> Origin:
    if parameter in _LORE:
        identifier = _LORE[parameter]
        entries = _lore_entries(state, identifier)
        found = source("pinned_groups", "lore", identifier, TITLES[identifier], lore_reason(entries), entries=entries)
        return Origin(identifier, "system", found, identifier, "lore")
    if parameter not in _PARTS:
        return TEMPLATE
    identifier, kind, title, reason = _PARTS[parameter]
    if parameter in _ANCHORS:
        anchored = _anchored(state, _ANCHORS[parameter])
        title = " + ".join(prompt.label for prompt in anchored) or title
        reason = "; ".join(prompt.reason for prompt in anchored)
        parts = [prompt.source("pinned_groups") for prompt in anchored]
        found = source("pinned_groups", kind, identifier, title, reason, parts=parts)
        return Origin(identifier, "system", found, identifier)
    if parameter == "scenario":
        reason = field_reason("scenario", state.card.of_chat)
    elif parameter == "persona":
        reason = state.context.active_persona.reason or reason
    return Origin(identifier, "system", source("pinned_groups", kind, identifier, title, reason), identifier)


def _lore_entries(state: SillyTavernState, identifier: str) -> list[FrozenJson]:
    result = state.lore_result
    if result is None:
        return []
    placement = result.placement
    return state.lore_sources.of(placement.before if identifier == "worldInfoBefore" else placement.after)


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
    text = text.lstrip("\n")  # only these; the end is not trimmed at all
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
