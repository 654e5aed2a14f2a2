"""What the page sends."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_TEXT = 4_000_000
"""Maximum characters of a text to try or search."""
MAX_UPLOAD = 48_000_000
"""Maximum characters of a file in Base64."""

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Name = Annotated[str, Field(max_length=300)]
Pointer = Annotated[str, Field(max_length=4000)]


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class EditIn(_In):
    """One edit, in the form of JSON Patch."""

    document: Name
    op: Literal["add", "replace", "remove", "move"]
    path: Pointer
    value: Any = None
    source: Annotated[str, Field(alias="from", max_length=4000)] = ""


class EditsIn(_In):
    """Edits that form one undo step."""

    edits: Annotated[list[EditIn], Field(min_length=1, max_length=2000)]
    group: Annotated[str | None, Field(max_length=4000)] = None
    label: Annotated[str | None, Field(max_length=300)] = None
    build: bool = True
    since: Name | None = None


class StepIn(_In):
    """Undo or redo."""

    build: bool = True
    since: Name | None = None


class BuildIn(_In):
    """Which prompt to compare with."""

    since: Name | None = None


class DocumentIn(_In):
    """A new document, or a file in Base64."""

    kind: Name | None = None
    name: Name = ""
    content: Annotated[str | None, Field(max_length=MAX_UPLOAD)] = None
    build: bool = True


class ActivateIn(_In):
    """A document to switch on or off."""

    document: Name
    active: bool = True
    build: bool = True


class SaveIn(_In):
    """A document to save; ``overwrite`` also replaces changes of another program."""

    overwrite: bool = False


class PlanIn(_In):
    """A prompt."""

    plan: Name


class RequestIn(PlanIn):
    """A prompt for a provider."""

    dialect: Name = "openai"
    reference: bool = False


class CacheIn(PlanIn):
    """A prompt and a provider's cache."""

    profile: Name = "openai"


class ScanIn(_In):
    """A text to say."""

    text: Text
    with_chat: bool = False


class CaseIn(_In):
    """A finding to keep."""

    name: Name = ""
    text: Text
    fires: Annotated[list[Name], Field(max_length=200)] = []
    stays_out: Annotated[list[Name], Field(max_length=200)] = []
    with_chat: bool = False
    write: bool = False


class EmptyIn(_In):
    """An empty body."""


class TurnIn(_In):
    """A turn of the conversation."""

    kind: Literal["send", "regenerate", "swipe", "continue", "impersonate", "quiet", "speak"] = "send"
    text: Text = ""


class ChangeIn(_In):
    """A change of the chat without a model."""

    op: Literal["edit", "delete", "delete_from", "hide", "unhide", "swipe_left", "greeting", "branch", "undo"]
    index: Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)] = -1
    text: Text = ""


class ModelIn(_In):
    """A model, and what it says if it is the scripted one."""

    model: Name
    script: Annotated[list[Annotated[str, Field(max_length=100_000)]] | None, Field(max_length=100)] = None


class SideIn(_In):
    """One side of a comparison."""

    version: Literal["edited", "saved"] = "edited"
    platform: Literal["silly_tavern", "risu_ai"] | None = None
    instead: Annotated[dict[Name, Name], Field(max_length=50)] = {}


class CompareIn(_In):
    """Two sides."""

    left: SideIn
    right: SideIn


class MacrosIn(_In):
    """A text with macros."""

    text: Annotated[str, Field(max_length=200_000)]
    engine: Literal["silly_tavern", "risu_ai"] = "silly_tavern"


class RegexIn(_In):
    """A regex script and a text."""

    script: dict[str, Any]
    text: Annotated[str, Field(max_length=200_000)]
    engine: Literal["silly_tavern", "risu_ai"] = "silly_tavern"


class OpenIn(_In):
    """A character of the folder or library."""

    character: Name | None = None
    group: Name | None = None
    chat: Name | None = None
    preset: Name | None = None
    books: Annotated[list[Name], Field(max_length=100)] = []
    platform: Literal["silly_tavern", "risu_ai"] | None = None
    discard: bool = False
