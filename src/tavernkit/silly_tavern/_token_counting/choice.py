"""Which tokenizer SillyTavern counts with, in chat completion and in text completion (``power_user.tokenizer``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeAlias, TypeVar

from tavernkit._dataclass import dataclass
from tavernkit._values import is_mapping
from tavernkit.errors import log_warning
from tavernkit.silly_tavern._token_counting.vocabularies import ESTIMATE, load_vocabulary

Patterns: TypeAlias = tuple[tuple[str, str], ...]
Numbers: TypeAlias = tuple[tuple[str, int], ...]
T = TypeVar("T")

MODEL_ITSELF = ""
"""In a table: the tokenizer's name is the model's."""

OTHERWISE = "gpt-3.5-turbo"
"""The default name for unknown sources and models, and the default family."""

NAMES: Mapping[str, Patterns] = {
    "openai": (("*", MODEL_ITSELF),),
    "custom": (("*", MODEL_ITSELF),),
    "azure_openai": (("?*", MODEL_ITSELF),),
    "deepseek": (("*", "deepseek"),),
    "ai21": (("*", "jamba"),),
    "claude": (("*", "claude"),),
    "makersuite": (("*", "gemma"),),
    "vertexai": (("*", "gemma"),),
    "cohere": (("*command-a*", "command-a"), ("*", "command-r")),
    "mistralai": (("*nemo*", "nemo"), ("*pixtral*", "nemo"), ("*", "mistral")),
    "openrouter": (
        ("*gpt-4o*", "gpt-4o"),
        ("*gpt-4*", "gpt-4"),
        ("*gpt-3.5-turbo*", "gpt-3.5-turbo"),
        ("*claude*", "claude"),
        ("*GPT-NeoXT*", "gpt2"),  # which the server does not know: it counts like any unknown model
        ("*jamba*", "jamba"),
        ("*deepseek*", "deepseek"),
    ),
    "electronhub": (
        ("*gpt-4o*", "gpt-4o"),
        ("*gpt-5*", "gpt-4o"),
        ("*gpt-6-astra*", "gpt-4o"),
        ("*gpt-4.1*", "gpt-4o"),
        ("*gpt-4.5*", "gpt-4o"),
        ("*gpt-4*", "gpt-4"),
        ("*gpt-3.5-turbo*", "gpt-3.5-turbo"),
        ("*claude*", "claude"),
        ("*jamba*", "jamba"),
        ("*deepseek*", "deepseek"),
        ("*sonar-reasoning*", "deepseek"),
        ("*r1*", "deepseek"),
        ("*qwen*", "qwen2"),
        ("*gemma*", "gemma"),
        ("*mistral*", "mistral"),  # before nemo, so mistral-nemo too
        ("*yi*", "yi"),
        ("*llama3*", "llama3"),
        ("*llama-3*", "llama3"),
        ("l3*", "llama3"),
        ("*llama*", "llama"),
        ("*command-a*", "command-a"),
        ("*command-r*", "command-r"),
        ("*nemo*", "nemo"),
    ),
    "chutes": (
        ("*deepseek*", "deepseek"),
        ("*mai-ds*", "deepseek"),
        ("*qwen*", "qwen2"),
        ("*qwq*", "qwen2"),
        ("*tongyi*", "qwen2"),
        ("*kimi*", "qwen2"),
        ("*llama*", "llama3"),  # even Llama 2
        ("*longcat*", "llama3"),
        ("*hermes*", "llama3"),
        ("*gemma*", "gemma"),
        ("*nemo*", "nemo"),
        ("*mistral*", "mistral"),
        ("*gpt-oss*", "gpt-4o"),
    ),
    "workers_ai": (
        ("*deepseek*", "deepseek"),
        ("*qwen*", "qwen2"),
        ("*qwq*", "qwen2"),
        ("*kimi*", "qwen2"),
        ("*llama-3*", "llama3"),
        ("*llama-4*", "llama3"),
        ("*llama*", "llama"),
        ("*gemma*", "gemma"),
        ("*mistral*", "mistral"),
        ("*phi*", "gpt-3.5-turbo"),
        ("*gpt-oss*", "gpt-4o"),
    ),
    "perplexity": (
        ("*sonar-reasoning*", "deepseek"),
        ("*r1-1776*", "deepseek"),
        ("*llama-3*", "llama3"),
        ("*llama3*", "llama3"),
        ("*llama*", "llama"),
        ("*mistral*", "mistral"),
        ("*mixtral*", "mistral"),
    ),
    "groq": (
        ("*qwen*", "qwen2"),
        ("*llama-3*", "llama3"),
        ("*llama3*", "llama3"),
        ("*mistral*", "mistral"),
        ("*mixtral*", "mistral"),
        ("*gemma*", "gemma"),
    ),
}
"""By source: patterns of model names, and the tokenizer's name. The first that matches counts.

What SillyTavern does not look for, such as Llama 4 at Groq, counts like ``OTHERWISE``, and so does it here.
"""

LOWER_CASED = frozenset({"chutes", "workers_ai"})
"""Sources whose model names are compared in lower case."""

MODEL_LIST_NAMES: Mapping[str, Patterns] = {
    "Llama2": (("*", "llama"),),
    "Llama3": (("*", "llama3"),),
    "Mistral": (("*", "mistral"),),
    "Yi": (("*", "yi"),),
    "Gemini": (("*", "gemma"),),
    "Qwen": (("*", "qwen2"),),
    "Cohere": (("*command-a*", "command-a"), ("*", "command-r")),
}
"""OpenRouter: by ``architecture.tokenizer`` in its model list, which beats the model's name."""

FAMILIES: Patterns = (
    ("o1", "o1"),
    ("*o1-preview*", "o1"),
    ("*o1-mini*", "o1"),
    ("*o3-mini*", "o1"),
    ("*gpt-5*", "o1"),
    ("*gpt-6-astra*", "o1"),
    ("*o3*", "o1"),
    ("*o4-mini*", "o1"),
    ("*gpt-4o*", "gpt-4o"),
    ("*chatgpt-4o-latest*", "gpt-4o"),
    ("*gpt-4.1*", "gpt-4o"),
    ("*gpt-4.5*", "gpt-4o"),
    ("*gpt-4*", "gpt-4"),
    ("*gpt-3.5-turbo-0301*", "gpt-3.5-turbo-0301"),
    ("*gpt-3.5-turbo*", "gpt-3.5-turbo"),
    ("text-davinci-003", "text-davinci-003"),
    ("text-davinci-002", "text-davinci-002"),
    ("text-davinci-001", "text-davinci-001"),
    ("text-curie-001", "text-curie-001"),
    ("text-babbage-001", "text-babbage-001"),
    ("text-ada-001", "text-ada-001"),
    ("code-davinci-002", "code-davinci-002"),
    ("code-davinci-001", "code-davinci-001"),
    ("code-cushman-002", "code-cushman-002"),
    ("code-cushman-001", "code-cushman-001"),
    ("*claude*", "claude"),
    ("*llama3*", "llama3"),
    ("*llama-3*", "llama3"),
    ("*llama*", "llama"),
    ("*mistral*", "mistral"),
    ("*yi*", "yi"),
    ("*deepseek*", "deepseek"),
    ("*gemma*", "gemma"),
    ("*gemini*", "gemma"),
    ("*learnlm*", "gemma"),
    ("*jamba*", "jamba"),
    ("*qwen2*", "qwen2"),
    ("*command-r*", "command-r"),
    ("*command-a*", "command-a"),
    ("*nemo*", "nemo"),
)
"""By name: the family the server counts with.

Names are compared as SillyTavern does, by parts and with case: ``o1-pro`` is not an ``o1``, but ``foo3`` is;
``Llama-3`` and ``qwen3`` are unknown, ``playing`` is a Yi, and ``mistral-nemo`` is not a Nemo.
"""


def tokenizer_name(source: str, model: str, model_list: Sequence[Mapping[str, object]] = ()) -> str:
    """Return the name of the tokenizer that SillyTavern's page requests.

    Args:
        source: ``chat_completion_source``.
        model: The source's model.
        model_list: OpenRouter's list of models. It is not in a data folder; without it, the model's name decides.
    """
    patterns = NAMES.get(source, ())
    # A listed tokenizer that has no name here, such as Claude's or Qwen3's, leaves it to the model's name.
    if source == "openrouter":
        listed = MODEL_LIST_NAMES.get(listed_tokenizer(model, model_list))
        patterns = (listed if listed is not None else patterns) if model else ()
    found = first_match(model.lower() if source in LOWER_CASED else model, patterns)
    return OTHERWISE if found is None else found or model


def family_name(name: str) -> str:
    """Return the family that SillyTavern's server uses for a tokenizer's name."""
    return first_match(name, FAMILIES) or OTHERWISE


def listed_tokenizer(model: str, model_list: Sequence[Mapping[str, object]]) -> str:
    """Return ``architecture.tokenizer`` of a model in OpenRouter's model list, or an empty text."""
    for entry in model_list:
        if entry.get("id") == model:
            architecture = entry.get("architecture")
            tokenizer = architecture.get("tokenizer") if is_mapping(architecture) else None
            return tokenizer if isinstance(tokenizer, str) else ""
    return ""


def first_match(text: str, patterns: Sequence[tuple[str, T]]) -> T | None:
    """Return the value of the first pattern that matches a text."""
    return next((value for pattern, value in patterns if fnmatchcase(text, pattern)), None)


NONE, OPENAI, LLAMA, API, MISTRAL, TEXT_API, KOBOLD_API, BEST_MATCH = 0, 2, 3, 6, 7, 9, 10, 99
"""Values of ``power_user.tokenizer`` with special rules."""

TOKENIZERS: Mapping[int, str] = {
    NONE: ESTIMATE,
    1: "gpt2",
    OPENAI: "cl100k_base",  # whatever the model: SillyTavern does not say which it is
    LLAMA: "llama",
    4: "nerdstash",
    5: "nerdstash_v2",
    MISTRAL: "mistral",
    8: "yi",
    11: "claude",
    12: "llama3",
    13: "gemma",
    14: "jamba",
    15: "qwen2",
    16: "command-r",
    17: "nemo",
    18: "deepseek",
    19: "command-a",
}
"""Vocabularies by the number of the setting; any other number is estimated."""

TOKENIZER_NAMES: Mapping[int, str] = {
    **TOKENIZERS,
    NONE: "none",
    OPENAI: "openai",
    TEXT_API: "api_textgenerationwebui",
    KOBOLD_API: "api_kobold",
}

NOT_CONNECTED = "no_connection"

REMOTE_TYPES = frozenset({"ooba", "tabby", "koboldcpp", "llamacpp", "vllm", "aphrodite"})
"""Backends that count for themselves."""

_NOVEL: Numbers = (("*clio*", 4), ("*kayra*", 5), ("*erato*", 12))
_DREAMGEN: Numbers = (("lucid-v1-extra-large*", 12), ("lucid-v1-max*", 12))
_MODELS: Numbers = (
    ("*llama3*", 12),
    ("*llama-3*", 12),
    ("*mistral*", 7),
    ("*mixtral*", 7),
    ("*gemma*", 13),
    ("*nemo*", 17),
    ("*pixtral*", 17),
    ("*deepseek*", 18),
    ("*yi*", 8),
    ("*jamba*", 14),
    ("*command-r*", 16),
    ("*command-a*", 19),
    ("*qwen2*", 15),
)
_OPENROUTER = {"Llama2": 3, "Llama3": 12, "Yi": 8, "Mistral": 7, "Gemini": 13, "Claude": 11, "Cohere": 16, "Qwen": 15}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBackend:
    """The inputs for choosing a tokenizer. A program with files only is never connected."""

    main_api: str
    """``textgenerationwebui``, ``kobold``, ``novel`` or ``koboldhorde``."""
    type: str = ""
    """The kind of backend, such as ``koboldcpp`` (``textgenerationwebui`` only)."""
    model: str = ""
    """The chosen model."""
    online: str = NOT_CONNECTED
    """The status of the connection: the model that the backend has loaded."""
    supported: bool = False
    """True if Oobabooga's token endpoint works."""
    can_tokenize: bool = False
    """True if Kobold's version can count."""
    failed: bool = False
    """True if the backend's tokenizer has failed before."""
    model_list: Sequence[Mapping[str, object]] = ()
    """OpenRouter's list of models."""


def best_match(backend: TextBackend) -> int:
    """Return the tokenizer of the setting "best match"."""
    api = backend.main_api
    if api == "novel":
        return first_match(backend.model, _NOVEL) or NONE
    if api not in ("kobold", "koboldhorde", "textgenerationwebui"):
        return NONE
    if not backend.failed and backend.online != NOT_CONNECTED:
        connected = _connected(backend)
        if connected is not None:
            return connected
    if api != "textgenerationwebui":
        return LLAMA  # whatever the model
    model = "tgi" if backend.type == "huggingface" else backend.model or backend.online
    return first_match(model.lower(), _MODELS) or LLAMA


def _connected(backend: TextBackend) -> int | None:
    if backend.main_api == "kobold":
        return KOBOLD_API if backend.can_tokenize else None
    if backend.main_api != "textgenerationwebui":
        return None
    if backend.type in REMOTE_TYPES:
        return TEXT_API if backend.type != "ooba" or backend.supported else None
    if backend.type == "openrouter":
        if "jamba" in backend.model:
            return 14
        return _OPENROUTER.get(listed_tokenizer(backend.model, backend.model_list), OPENAI)
    if backend.type == "dreamgen":
        return first_match(backend.model, _DREAMGEN) or MISTRAL
    return None


def chosen_tokenizer(setting: int, backend: TextBackend) -> int:
    """Return the number of the tokenizer that counts for a setting."""
    if setting == BEST_MATCH:
        return best_match(backend)
    if setting == API:
        return {"textgenerationwebui": TEXT_API, "kobold": KOBOLD_API}.get(backend.main_api, NONE)
    return setting


class TextTokenizer:
    """Counts texts for text completion as configured, with the backend's own tokenizer if it has one.

    Pass it to builds as ``token_estimator``. If the backend fails, the best match may change, as in SillyTavern.
    """

    def __init__(
        self,
        setting: int,
        backend: TextBackend,
        count: Callable[[str, str], int] | None = None,
        remote: Callable[[str], int] | None = None,
    ) -> None:
        """Make a tokenizer.

        Args:
            setting: The tokenizer that ``settings.json`` chooses (``power_user.tokenizer``).
            backend: The inputs for the choice, such as ``settings.text_backend``.
            count: Counts a text (second) with a vocabulary (first); by default with those shipped with TavernKit.
            remote: Counts a text at the backend; raises ``OSError`` on failure.
        """
        self.setting = setting
        self.backend = backend
        self._count = count if count is not None else _shipped
        self._remote = remote

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        """Return the tokens of a text; ``model_hint`` is not needed."""
        return self.count(text)

    def count(self, text: str, padding: int = 0) -> int:
        """Return the tokens of a text; 0, without padding, for an empty one.

        Args:
            text: The text.
            padding: Added to the tokens, as ``power_user.token_padding`` is.
        """
        return self._tokens(text, chosen_tokenizer(self.setting, self.backend)) + padding if text else 0

    def _tokens(self, text: str, tokenizer: int) -> int:
        if tokenizer not in (TEXT_API, KOBOLD_API):
            return self._count(TOKENIZERS.get(tokenizer, ESTIMATE), text)
        if self._remote is not None:
            try:
                return self._remote(text)
            except OSError:
                self.backend = replace(self.backend, failed=True)
        other = chosen_tokenizer(self.setting, self.backend)
        return self._tokens(text, other) if other != tokenizer else self._count(ESTIMATE, text)


def _shipped(name: str, text: str) -> int:
    return load_vocabulary(name, None, log_warning).count(text)
