"""A model wrapper that answers with directives."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, freeze_object
from tavernkit.models import Model, ProviderError, Reply, ReplyPiece, Request
from tavernkit.models._protocol import AsyncContext
from tavernkit.vibe_tavern._directives.output_options import StructuredOutputOptions
from tavernkit.vibe_tavern._directives.runner import DirectivesRunner
from tavernkit.vibe_tavern._prompt_runner import PromptRunner
from tavernkit.vibe_tavern._runner_config import RunnerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectivesReply(Reply):
    """A reply with its directives."""

    directives: Sequence[FrozenObject] = ()
    """Validated objects with ``type`` and ``payload``."""


class DirectivesModel(AsyncContext):
    """Asks another model for a directives envelope and returns its text as the reply.

    A conversation with such a model stores only the text; the directives are in ``chat.last.reply.directives``. Replies
    are not streamed, because an envelope can only be read when it is complete.

    >>> model = DirectivesModel(tk.model("openai:gpt-4o"), {"allowed_types": ["ui.toast"]})    # doctest: +SKIP
    """

    def __init__(
        self,
        model: Model,
        directives: StructuredOutputOptions | Mapping[str, object] | None = None,
        *,
        config: RunnerConfig | None = None,
    ) -> None:
        """Make a model.

        Args:
            model: The model that is asked.
            directives: The allowed directives.
            config: Modes, repairs and other options; by default made for the model.
        """
        runner = PromptRunner(model)
        self._model = model
        self._directives = StructuredOutputOptions.from_mapping(directives)
        made = config or RunnerConfig.build(provider=model.dialect, model=model.name or model.dialect)
        self._runner = DirectivesRunner(runner, made)

    @property
    def name(self) -> str:
        """The name of the model that is asked."""
        return self._model.name

    @property
    def dialect(self) -> str:
        """The protocol of the model that is asked."""
        return self._model.dialect

    async def send(
        self, request: Request, *, on_delta: Callable[[ReplyPiece], object] | None = None
    ) -> DirectivesReply:
        """Ask for an envelope and return its text and directives.

        Args:
            request: What to send.
            on_delta: Called once, with the whole text.

        Raises:
            ModelError: There is no usable envelope.
        """
        result = await self._runner.run(prompt=request, structured_output_options=self._directives)
        if not result.ok:
            raise ProviderError(f"the model gave no usable directives envelope: {result.text[:200]!r}")
        if on_delta is not None:
            on_delta(ReplyPiece(text=result.text))
        found = tuple(freeze_object(each) for each in result.directives)
        return DirectivesReply(text=result.text, directives=found, finish_reason="stop", model=self.name)

    async def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Ask for an envelope and yield its text in one piece."""
        reply = await self.send(request)
        yield ReplyPiece(text=reply.text, finish_reason="stop")

    async def aclose(self) -> None:
        """Close the model that is asked."""
        await self._model.aclose()
