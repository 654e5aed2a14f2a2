"""Makes models from short names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Final

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.models._anthropic import AnthropicModel
from tavernkit.models._cohere import CohereModel
from tavernkit.models._endpoint import Endpoint
from tavernkit.models._google import API_VERSION, GoogleModel, VertexModel
from tavernkit.models._http import HttpModel
from tavernkit.models._limits import RETRIES
from tavernkit.models._openai import AzureModel, BackendModel, OpenAIModel, TextModel
from tavernkit.models._options import ServerFields
from tavernkit.models._protocol import Model, with_retries
from tavernkit.models._scripted import Script, ScriptedModel

SCRIPTED: Final = "scripted"
API_KEY: Final = "TAVERNKIT_API_KEY"
"""The environment variable of the key for another server; a provider's own server gets the provider's own key."""
_ADDRESS: Final = re.compile(r"https?://")
_VERSION: Final = re.compile(r"/v\d+[a-z]*\d*/?$")


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's address, model class, and the source of its key."""

    title: str
    """The provider's own name."""
    make: Callable[..., HttpModel]
    base_url: str | None
    """None if there is no usual address."""
    keys: tuple[str, ...] = ()
    """Environment variables with the key."""
    address: str = ""
    """The environment variable with another address."""
    api_prefix: str = "/v1"
    local: bool = False
    """True if it is a server that the user runs: the usual address needs no key."""


def _backend(
    name: str, title: str, base_url: str | None, *keys: str, api_prefix: str = "/v1", local: bool = False
) -> tuple[str, Provider]:
    """A text-completion server."""
    make = partial(BackendModel, backend=name)
    return name, Provider(title, make, base_url, keys, api_prefix=api_prefix, local=local)


PROVIDERS: Final[Mapping[str, Provider]] = {
    "openai": Provider("OpenAI", OpenAIModel, "https://api.openai.com", ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "anthropic": Provider(
        "Anthropic", AnthropicModel, "https://api.anthropic.com", ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"
    ),
    "google": Provider(
        "Google",
        GoogleModel,
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        api_prefix=f"/{API_VERSION}",
    ),
    "vertexai": Provider("Vertex AI", VertexModel, "https://aiplatform.googleapis.com", ("GOOGLE_API_KEY",)),
    "text": Provider("text completion", TextModel, None, ("OPENAI_API_KEY",)),
    "openrouter": Provider("OpenRouter", OpenAIModel, "https://openrouter.ai/api", ("OPENROUTER_API_KEY",)),
    "deepseek": Provider("DeepSeek", OpenAIModel, "https://api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    "mistral": Provider("Mistral AI", OpenAIModel, "https://api.mistral.ai", ("MISTRAL_API_KEY",)),
    "groq": Provider("Groq", OpenAIModel, "https://api.groq.com/openai", ("GROQ_API_KEY",)),
    "xai": Provider("xAI", OpenAIModel, "https://api.x.ai", ("XAI_API_KEY",)),
    "cohere": Provider("Cohere", CohereModel, "https://api.cohere.ai", ("CO_API_KEY", "COHERE_API_KEY"), "", "/v2"),
    "ai21": Provider("AI21", OpenAIModel, "https://api.ai21.com/studio", ("AI21_API_KEY",)),
    "perplexity": Provider("Perplexity", OpenAIModel, "https://api.perplexity.ai", ("PERPLEXITY_API_KEY",), "", ""),
    "moonshot": Provider("Moonshot AI", OpenAIModel, "https://api.moonshot.ai", ("MOONSHOT_API_KEY",)),
    "fireworks": Provider("Fireworks", OpenAIModel, "https://api.fireworks.ai/inference", ("FIREWORKS_API_KEY",)),
    "azure_openai": Provider(
        "Azure OpenAI", AzureModel, None, ("AZURE_OPENAI_API_KEY",), "AZURE_OPENAI_ENDPOINT", "/openai/v1"
    ),
    "zai": Provider("Z.AI", OpenAIModel, "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",), "", ""),
    "siliconflow": Provider("SiliconFlow", OpenAIModel, "https://api.siliconflow.com", ("SILICONFLOW_API_KEY",)),
    "minimax": Provider("MiniMax", OpenAIModel, "https://api.minimax.io", ("MINIMAX_API_KEY",)),
    "workers_ai": Provider("Workers AI", OpenAIModel, None, ("CLOUDFLARE_API_TOKEN", "CLOUDFLARE_API_KEY")),
    "nanogpt": Provider("NanoGPT", OpenAIModel, "https://nano-gpt.com/api", ("NANOGPT_API_KEY",)),
    "chutes": Provider("Chutes", OpenAIModel, "https://llm.chutes.ai", ("CHUTES_API_KEY",)),
    "electronhub": Provider("Electron Hub", OpenAIModel, "https://api.electronhub.ai", ("ELECTRONHUB_API_KEY",)),
    "aimlapi": Provider("AI/ML API", OpenAIModel, "https://api.aimlapi.com", ("AIMLAPI_API_KEY", "AIML_API_KEY")),
    "pollinations": Provider("Pollinations", OpenAIModel, "https://gen.pollinations.ai", ("POLLINATIONS_API_KEY",)),
    "custom": Provider("custom", OpenAIModel, None, ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    **dict(
        (
            _backend("koboldcpp", "KoboldCpp", "http://localhost:5001", "KOBOLDCPP_API_KEY", local=True),
            _backend("kobold", "KoboldAI", "http://localhost:5000", api_prefix="/api", local=True),
            _backend("llamacpp", "llama.cpp", "http://localhost:8080", "LLAMA_API_KEY", api_prefix="", local=True),
            _backend("ollama", "Ollama", "http://localhost:11434", "OLLAMA_API_KEY", api_prefix="", local=True),
            _backend("vllm", "vLLM", "http://localhost:8000", "VLLM_API_KEY", local=True),
            _backend("tabby", "TabbyAPI", "http://localhost:5000", "TABBY_API_KEY", local=True),
            _backend("aphrodite", "Aphrodite", "http://localhost:2242", "APHRODITE_API_KEY", local=True),
            _backend("ooba", "Text generation web UI", "http://localhost:5000", "OOBA_API_KEY", local=True),
            _backend("huggingface", "Hugging Face", None, "HF_TOKEN"),
            _backend("generic", "text completion", None, "OPENAI_API_KEY"),
            _backend("mancer", "Mancer", "https://neuro.mancer.tech", "MANCER_API_KEY", api_prefix="/oai/v1"),
            _backend("dreamgen", "DreamGen", "https://dreamgen.com", "DREAMGEN_API_KEY", api_prefix="/api/openai/v1"),
            _backend("featherless", "Featherless", "https://api.featherless.ai", "FEATHERLESS_API_KEY"),
            _backend("togetherai", "Together AI", "https://api.together.xyz", "TOGETHER_API_KEY"),
            _backend("infermaticai", "Infermatic", "https://api.totalgpt.ai", "INFERMATIC_API_KEY"),
            _backend("novelai", "NovelAI", "https://text.novelai.net", "NOVELAI_API_KEY", api_prefix=""),
        )
    ),
}
"""Providers by name."""

ALIASES: Final[Mapping[str, str]] = {
    "claude": "anthropic",
    "makersuite": "google",
    "mistralai": "mistral",
    "azure": "azure_openai",
}
"""Other names, SillyTavern's above all."""


def model(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    max_retries: int = RETRIES,
    replies: Sequence[Script] | None = None,
    fields: ServerFields | None = None,
    warn: Warn = log_warning,
    environment: Mapping[str, str] | None = None,
) -> Model:
    """Make a model from ``provider:name``.

    >>> model("openai:gpt-4o")                                                     # doctest: +SKIP
    >>> model("openai:my-model", base_url="http://localhost:8000")                 # doctest: +SKIP
    >>> model("anthropic:claude-sonnet-4-5", timeout=60, max_retries=0)            # doctest: +SKIP
    >>> model("koboldcpp:http://localhost:5001")                                   # doctest: +SKIP
    >>> model("scripted", replies=["Hello."]).name
    'scripted-model'

    Args:
        name: ``openai:NAME``, ``anthropic:NAME``, ``google:NAME``, ``openrouter:NAME`` and others; for text completion
            ``koboldcpp:NAME``, ``llamacpp:NAME``, ``ollama:NAME``, ``text:NAME`` and others; or ``scripted``. The NAME
            may be an address. Without a NAME, each request must name its model, unless the
            server runs only one.
        api_key: The key; by default it is read from the provider's usual environment variable.
        base_url: The address of another server that speaks the same protocol, with or without ``/v1``.
        headers: Additional headers.
        timeout: Seconds to wait for a reply, or for the next piece of a stream.
        max_retries: How often a request that failed before the reply began is sent again.
        replies: What the scripted model says, in order.
        fields: Which options the server accepts, if the model's name does not tell.
        warn: Called with options that the provider or the model does not accept.
        environment: Environment variables; those of the process by default.

    Raises:
        ConfigError: The provider is unknown, or there is no address.
    """
    require("name", name, str)
    provider, _, model_name = name.partition(":")
    if provider == SCRIPTED:
        return ScriptedModel(*(replies or ()), name=model_name or "scripted-model")
    if replies is not None:
        raise ConfigError("replies are for the scripted model: tk.model('scripted', replies=[…])")
    known = find_provider(name)
    if _ADDRESS.match(model_name):
        base_url, model_name = base_url or model_name, ""
    variables = os.environ if environment is None else environment
    address = base_url or variables.get(known.address) or known.base_url
    if address is None:
        raise ConfigError(f"{name!r} needs base_url: there is no usual server for it", code="BASE_URL_REQUIRED")
    endpoint = Endpoint(
        base_url=address,
        api_key=api_key or next((value for key in known.keys if (value := variables.get(key))), None),
        api_prefix="" if _VERSION.search(address) else known.api_prefix,
        headers=headers or {},
        timeout=timeout,
    )
    # A provider's own server requires a key; other servers may not.
    wanted = known.keys[0] if not known.local and endpoint.base_url == known.base_url else ""
    made = known.make(model_name, endpoint, warn=warn, key_variable=wanted, provider=known.title, fields=fields)
    return with_retries(made, retries=max_retries)


def user_model(
    name: str, *, base_url: str | None = None, timeout: float | None = None, max_retries: int = RETRIES
) -> Model:
    """Make a model that the user of a program names, perhaps with another server.

    Another server gets the key in ``TAVERNKIT_API_KEY``. It never gets that of a provider with a server of its own,
    because its address may come from a file.

    Args:
        name: ``provider:name``, as for ``model()``.
        base_url: The address of another server; it may also be in the name.
        timeout: Seconds to wait for a reply.
        max_retries: How often a request is retried.
    """
    if base_url is None and not _ADDRESS.match(name.partition(":")[2]):
        return model(name, timeout=timeout, max_retries=max_retries)
    with_server = (each for each in PROVIDERS.values() if each.base_url is not None and not each.local)
    kept_back = {key for each in with_server for key in each.keys}
    return model(
        name,
        api_key=os.environ.get(API_KEY),
        base_url=base_url,
        timeout=timeout,
        max_retries=max_retries,
        environment={name: value for name, value in os.environ.items() if name not in kept_back},
    )


def find_provider(name: str) -> Provider:
    """Return the provider of ``provider:name``.

    Raises:
        ConfigError: The provider is unknown.
    """
    provider = name.partition(":")[0]
    known = PROVIDERS.get(ALIASES.get(provider, provider))
    if known is None:
        raise ConfigError(_unknown(name, provider), code="UNKNOWN_PROVIDER")
    return known


def _unknown(name: str, provider: str) -> str:
    known = [*PROVIDERS, *ALIASES, SCRIPTED]
    near = get_close_matches(provider, known, n=1, cutoff=0.7)
    if near:
        return f"no provider {provider!r}: did you mean {name.replace(provider, near[0], 1)!r}?"
    if ":" not in name:
        return f"{name!r} names no provider: pass 'openai:{name}', or another of {', '.join(known)}"
    return f"no provider {provider!r}: known are {', '.join(known)}"
