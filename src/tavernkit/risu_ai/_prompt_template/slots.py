"""What a prompt is assembled from: its slots, the fields of the character, and texts expanded during the build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Unpack

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, to_number
from tavernkit._text.traced import plain
from tavernkit._values import EMPTY_OBJECT, FrozenObject
from tavernkit.errors import Warn
from tavernkit.risu_ai._cbs.context import CBSContext, CBSContextChanges
from tavernkit.risu_ai._cbs.engine import CBSEngine
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat

Messages = list[PromptMessage]


@dataclass(slots=True)
class Slots:
    """Messages by the place they are meant for. Cards of a template print some of them, an order without one all."""

    main: Messages = field(default_factory=list[PromptMessage])
    jailbreak: Messages = field(default_factory=list[PromptMessage])
    chats: Messages = field(default_factory=list[PromptMessage])
    lorebook: Messages = field(default_factory=list[PromptMessage])
    global_note: Messages = field(default_factory=list[PromptMessage])
    author_note: Messages = field(default_factory=list[PromptMessage])
    last_chat: Messages = field(default_factory=list[PromptMessage])
    description: Messages = field(default_factory=list[PromptMessage])
    post_everything: Messages = field(default_factory=list[PromptMessage])
    persona: Messages = field(default_factory=list[PromptMessage])
    memory: Messages = field(default_factory=list[PromptMessage])

    def named(self, name: str) -> Messages | None:
        """The slot that ``formatingOrder`` calls by that name."""
        attribute = ORDER_NAMES.get(name)
        return None if attribute is None else getattr(self, attribute)


ORDER_NAMES: Mapping[str, str] = {
    "main": "main",
    "jailbreak": "jailbreak",
    "chats": "chats",
    "lorebook": "lorebook",
    "globalNote": "global_note",
    "authorNote": "author_note",
    "lastChat": "last_chat",
    "description": "description",
    "postEverything": "post_everything",
    "personaPrompt": "persona",
}
"""RisuAI's names of the slots."""


class Texts:
    """The CBS engine bound to one build. ``context`` changes as the build goes on."""

    def __init__(self, engine: CBSEngine, context: CBSContext, *, warn: Warn, strict: bool) -> None:
        self.engine = engine
        self.context = context
        self._warn = warn
        self._strict = strict
        self._roles: dict[str | None, CBSContext] = {}

    def untraced(self) -> Texts:
        """Return what expands the same texts and loses their places, for a source map."""
        return _Untraced(self.engine, self.context, warn=self._warn, strict=self._strict)

    def __call__(self, text: str, *, role: str | None = None) -> str:
        """Expand a text for the speaking character; ``role`` is what ``{{role}}`` prints."""
        if "{" not in text and "<" not in text:
            return text
        context = self._roles.get(role)
        if context is None:
            context = self._roles[role] = self.context.replace(role=role)
        return self._expand(text, context)

    def as_speaker(self, text: str, speaker: RisuCharacter | str | None) -> str:
        """Expand a text for another speaker, or for none."""
        return self._expand(text, self.context.replace(speaker=speaker))

    def with_writes(self, text: str) -> str:
        """Expand a text and carry out what it writes to variables."""
        if "{" not in text and "<" not in text:
            return text
        return self._expand(text, self.context.replace(writes="run"))

    def change(self, **changes: Unpack[CBSContextChanges]) -> None:
        """Let later texts see something else."""
        self.context = self.context.replace(**changes)
        self._roles.clear()

    def see_chat(self, chat: RisuChat) -> None:
        """Let later texts see the chat as it is stored now."""
        self.change(chat=chat)

    def _expand(self, text: str, context: CBSContext) -> str:
        return self.engine.expand(text, context, warn=self._warn, strict=self._strict)


class _Untraced(Texts):
    """Expands texts without tracing where they come from."""

    def _expand(self, text: str, context: CBSContext) -> str:
        return super()._expand(plain(text), context)


InlayView = Literal["", "emotion", "imggen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthPrompt:
    """A text at a depth of the finished prompt; a missing depth is not a number."""

    prompt: str
    depth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterFields:
    """A character's own prompt texts and switches."""

    system_prompt: str = ""
    replace_global_note: str = ""
    depth_prompt: DepthPrompt | None = None
    utility_bot: bool = False
    additional_text: str = ""
    inlay_view: InlayView = ""
    emotion_instructions: str = ""
    image_instructions: str = ""
    supa_memory: bool = False
    escape_output: bool = False
    scripts: tuple[FrozenObject, ...] = ()
    triggers: tuple[FrozenObject, ...] = ()


def character_fields(character: RisuCharacter) -> CharacterFields:
    """Read the fields of a character."""
    raw = character.raw
    depth, generation, view = _object(raw, "depth_prompt"), _object(raw, "newGenData"), _text(raw, "viewScreen")
    inlay: InlayView = ""
    if raw.get("inlayViewScreen"):
        inlay = "emotion" if view == "emotion" else "imggen" if view == "imggen" else ""
    return CharacterFields(
        system_prompt=_text(raw, "systemPrompt"),
        replace_global_note=_text(raw, "replaceGlobalNote"),
        depth_prompt=DepthPrompt(prompt=_text(depth, "prompt"), depth=to_number(depth.get("depth", UNDEFINED)))
        if depth
        else None,
        utility_bot=bool(raw.get("utilityBot")),
        additional_text=_text(raw, "additionalText"),
        inlay_view=inlay,
        emotion_instructions=_text(generation, "emotionInstructions"),
        image_instructions=_text(generation, "instructions"),
        supa_memory=bool(raw.get("supaMemory")),
        escape_output=bool(raw.get("escapeOutput")),
        scripts=_objects(raw, "customscript"),
        triggers=_objects(raw, "triggerscript"),
    )


def _text(value: FrozenObject, key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _object(value: FrozenObject, key: str) -> FrozenObject:
    found = value.get(key)
    return found if isinstance(found, Mapping) else EMPTY_OBJECT


def _objects(value: FrozenObject, key: str) -> tuple[FrozenObject, ...]:
    found = value.get(key)
    return tuple(each for each in found if isinstance(each, Mapping)) if isinstance(found, tuple) else ()
