"""Which model to talk to, as options."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit._dataclass import dataclass
from tavernkit.errors import ConfigError

if TYPE_CHECKING:
    from tavernkit.models import Model

SCRIPTED = "scripted"
"""The base URL that means the model that comes with TavernKit."""

MODEL = "The model"


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """An OpenAI-compatible endpoint, or the scripted model. The key is read from the environment only."""

    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            help="OpenAI-compatible endpoint, or 'scripted' for a model that needs no server.",
            envvar="TAVERNKIT_BASE_URL",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "--chat-model",
            metavar="NAME",
            help="Name of the model at --base-url (default: 'default').",
            envvar="TAVERNKIT_MODEL",
            rich_help_panel=MODEL,
        ),
    ] = None
    reply: Annotated[
        list[str] | None,
        typer.Option("--reply", help="What the scripted model says; may be repeated.", rich_help_panel=MODEL),
    ] = None

    @property
    def scripted(self) -> bool:
        """True if the scripted model is meant."""
        return self.base_url == SCRIPTED or (self.base_url is None and bool(self.reply))

    def connect(self, *, text: bool = False) -> Model:
        """Make the model; ``text`` asks for text completion instead of a chat."""
        if self.scripted:
            from tavernkit.testing import ScriptedModel, streamed

            replies = self.reply or ['*She looks up.* "Go on. I am listening."']
            return ScriptedModel(*(streamed(*_pieces(reply)) for reply in replies), repeat_last=True)
        if self.base_url is None:
            raise typer.BadParameter(
                "set the model's address with --base-url URL (key in TAVERNKIT_API_KEY), or try --base-url scripted"
            )
        from tavernkit.models import Endpoint, OpenAIModel, TextModel, with_retries

        require_models()
        make = TextModel if text else OpenAIModel
        return with_retries(make(self.model or "default", Endpoint.from_env(base_url=self.base_url)))


def require_models() -> None:
    """Raise if models cannot be asked, before anything else is done."""
    try:
        importlib.import_module("httpx")
    except ModuleNotFoundError as error:
        raise ConfigError("models need their extra: pip install 'tavernkit[models]'", code="EXTRA_MISSING") from error


def _pieces(text: str) -> list[str]:
    """A reply word by word, as a model would stream it."""
    words = text.split(" ")
    return [word if number == 0 else f" {word}" for number, word in enumerate(words)]
