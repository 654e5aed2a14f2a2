"""Which tokenizer SillyTavern counts with in text completion (``power_user.tokenizer``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tavernkit._dataclass import dataclass
from tavernkit.errors import log_warning
from tavernkit.silly_tavern._token_counting.names import Patterns, first_match, listed_tokenizer
from tavernkit.silly_tavern._token_counting.vocabularies import ESTIMATE, load_vocabulary

NONE, OPENAI, LLAMA, API, TEXT_API, KOBOLD_API, BEST_MATCH = 0, 2, 3, 6, 9, 10, 99
"""Values of ``power_user.tokenizer`` with special rules."""

TOKENIZERS: Mapping[int, str] = {
    NONE: ESTIMATE,
    1: "gpt2",
    OPENAI: "cl100k_base",
    LLAMA: "llama",
    4: "nerdstash",
    5: "nerdstash_v2",
    7: "mistral",
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

_NOVEL: Patterns = (("*clio*", "4"), ("*kayra*", "5"), ("*erato*", "12"))
_DREAMGEN: Patterns = (("lucid-v1-extra-large*", "12"), ("lucid-v1-max*", "12"), ("*", "7"))
_MODELS: Patterns = (
    ("*llama3*", "12"),
    ("*llama-3*", "12"),
    ("*mistral*", "7"),
    ("*mixtral*", "7"),
    ("*gemma*", "13"),
    ("*nemo*", "17"),
    ("*pixtral*", "17"),
    ("*deepseek*", "18"),
    ("*yi*", "8"),
    ("*jamba*", "14"),
    ("*command-r*", "16"),
    ("*command-a*", "19"),
    ("*qwen2*", "15"),
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
        return int(first_match(backend.model, _NOVEL) or NONE)
    if api not in ("kobold", "koboldhorde", "textgenerationwebui"):
        return NONE
    if not backend.failed and backend.online != NOT_CONNECTED:
        connected = _connected(backend)
        if connected is not None:
            return connected
    if api != "textgenerationwebui":
        return LLAMA
    model = "tgi" if backend.type == "huggingface" else backend.model or backend.online
    return int(first_match(model.lower(), _MODELS) or LLAMA)


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
        return int(first_match(backend.model, _DREAMGEN) or 7)
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
