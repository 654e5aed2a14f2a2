"""Which model to talk to, as options."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit._dataclass import dataclass
from tavernkit.errors import ConfigError

if TYPE_CHECKING:
    from tavernkit.models import Model

SCRIPTED = "scripted"
"""The name of the model that comes with TavernKit."""

MODEL = "The model"


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """A provider's model, a model at an address, or the scripted model. Keys are read from the environment only."""

    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="Another server with the provider's protocol (default: OpenAI's); its key is in TAVERNKIT_API_KEY.",
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
            help="provider:name, such as openai:gpt-4o; the name alone, with --base-url; or scripted.",
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
        return SCRIPTED in (self.base_url, self.model) or (self.base_url is None and bool(self.reply))

    @property
    def model_name(self) -> str | None:
        """The model's own name, without its provider, if it has one: it decides how tokens are counted."""
        name = split_name(self.model or "")[1]
        return None if not name or name == SCRIPTED or "://" in name else name

    @property
    def address(self) -> str:
        """Where the model is, for messages."""
        return "the scripted model" if self.scripted else self.base_url or self.model or ""

    def connect(self, *, text: bool = False) -> Model:
        """Make the model; ``text`` selects text completion instead of chat."""
        if self.scripted:
            from tavernkit.testing import ScriptedModel, streamed

            replies = self.reply or ['*She looks up.* "Go on. I am listening."']
            return ScriptedModel(*(streamed(*_pieces(reply)) for reply in replies), repeat_last=True)
        provider, name = split_name(self.model or "")
        if self.base_url is None and not provider:
            raise typer.BadParameter(
                "name the model with --model provider:name, such as openai:gpt-4o, or its address with --base-url URL; "
                "--model scripted needs neither"
            )
        require_models()
        from tavernkit.models import Endpoint, OpenAIModel, TextModel, model, with_retries

        if not provider:
            make = TextModel if text else OpenAIModel
            return with_retries(make(name or "default", Endpoint.from_env(base_url=self.base_url)))
        assert self.model is not None
        key = os.environ.get("TAVERNKIT_API_KEY") if self.base_url is not None else None
        return model(self.model, base_url=self.base_url, api_key=key)


def split_name(name: str) -> tuple[str, str]:
    """Divide ``provider:name``; the provider is empty if there is none, as in ``qwen:7b``."""
    from tavernkit.models._factory import ALIASES, PROVIDERS

    provider, colon, rest = name.partition(":")
    return (provider, rest) if colon and (provider in PROVIDERS or provider in ALIASES) else ("", name)


def require_models() -> None:
    """Raise early if the extra for models is missing."""
    try:
        importlib.import_module("httpx")
    except ModuleNotFoundError as error:
        raise ConfigError("models need their extra: pip install 'tavernkit[models]'", code="EXTRA_MISSING") from error


def _pieces(text: str) -> list[str]:
    """Yield a reply word by word, as a model would stream it."""
    words = text.split(" ")
    return [word if number == 0 else f" {word}" for number, word in enumerate(words)]
