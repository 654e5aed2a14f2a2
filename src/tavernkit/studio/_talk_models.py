"""The models that Studio's conversation can use, and the tools that these call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tavernkit._turns import ToolOutcome
from tavernkit._values import Json, JsonObject
from tavernkit.conversation import ToolInput
from tavernkit.conversation._tools import ToolBox
from tavernkit.models import Model, ScriptedModel
from tavernkit.models._reply import ToolCall
from tavernkit.models._scripted import Answer
from tavernkit.studio.errors import StudioError

SCRIPTED: Final = "scripted"
OWN_WORDS: Final = (
    '*Nods slowly.* "Go on. I am listening."',
    '*Looks out at the sea for a while.* "That is not how I remember it."',
    '"And then?" *The kettle begins to sing.*',
)
"""The default reply of the scripted model."""
MAX_SCRIPT: Final = 100

Event: TypeAlias = tuple[str, JsonObject]
"""The name and data of an event of a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model that the page may choose. Its key stays here."""

    id: str
    label: str
    make: Callable[[], Model]


class TalkModels:
    """The models of the page: those of the program, and a scripted one."""

    def __init__(self, models: Sequence[ModelChoice]) -> None:
        self._choices = {each.id: each for each in models}
        self.chosen = models[0].id if models else SCRIPTED
        """The id of the model that answers."""
        self._script: tuple[str, ...] = ()
        self._said = 0
        self._model: Model | None = None

    def describe(self) -> list[Json]:
        """Return the models that can be chosen, without their keys."""
        scripted: JsonObject = {"id": SCRIPTED, "label": "Scripted model (no key needed)"}
        return [scripted, *({"id": each.id, "label": each.label} for each in self._choices.values())]

    def require(self, model: str) -> None:
        """Raise if there is no such model."""
        if model != SCRIPTED and model not in self._choices:
            raise StudioError(422, f"there is no model {model!r}", code="unknown_model")

    async def choose(self, model: str, script: Sequence[str] | None) -> None:
        """Choose another model, and close the one before.

        Args:
            model: Its id.
            script: What the scripted model says, in order.
        """
        await self.aclose()
        self.chosen = model
        self._script = tuple(script or ())[:MAX_SCRIPT]
        self._said = 0

    def model(self) -> Model:
        """Return the chosen model; all conversations share it and its connections."""
        if self._model is None:
            choice = self._choices.get(self.chosen)
            scripted = ScriptedModel(self._next_words, name="", repeat_last=True)
            self._model = choice.make() if choice is not None else scripted
        return self._model

    async def aclose(self) -> None:
        """Close the model."""
        model, self._model = self._model, None
        if model is not None:
            await model.aclose()

    def _next_words(self, body: JsonObject) -> Answer:
        """Return the next line of the scripted model; the last one repeats forever."""
        del body
        words = self._script or OWN_WORDS
        at = min(self._said, len(words) - 1) if self._script else self._said % len(words)
        self._said += 1
        return scripted_answer(words[at])


class ReportingTools(ToolBox):
    """Tools whose calls the page shows."""

    def __init__(self, tools: Sequence[ToolInput]) -> None:
        super().__init__(tools)
        self.report: Callable[[Event], object] | None = None

    async def call(self, call: ToolCall) -> ToolOutcome:
        """Run a tool, and report it."""
        outcome = await super().call(call)
        if self.report is not None:
            shown_call: JsonObject = {
                "name": call.name,
                "arguments": call.arguments,
                "result": outcome.result,
                "failed": outcome.failed,
            }
            self.report(("tool", shown_call))
        return outcome


def scripted_answer(text: str) -> Answer:
    """Return a reply word by word; a line such as ``!roll {"sides": 6}`` calls a tool."""
    if text.startswith("!"):
        name, _, arguments = text[1:].partition(" ")
        function: JsonObject = {"name": name, "arguments": arguments or "{}"}
        return Answer(text="", tool_calls=[{"id": "call_1", "type": "function", "function": function}])
    words = text.split(" ")
    return Answer(text=text, deltas=[word if number == 0 else f" {word}" for number, word in enumerate(words)])
