"""Which tokenizer a model uses, by its name."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from tavernkit._dataclass import dataclass
from tavernkit.budget._limits import MODEL_CACHE_SIZE

DEFAULT_TOKENIZER = "cl100k_base"
"""Used for unknown models."""


@dataclass(frozen=True, slots=True)
class Family:
    """A tokenizer and whether it is the model's own (``exact``) or only the closest one that is bundled."""

    tokenizer: str
    """The name of the tokenizer, such as ``o200k_base`` or ``llama3``."""
    exact: bool = True


_DEFAULT = Family(DEFAULT_TOKENIZER, exact=False)

# The first pattern that matches wins: special cases come before their family.
_EXACT: tuple[tuple[str, str], ...] = (
    ("gpt-oss*", "gpt-oss"),
    ("gpt-4o*", "o200k_base"),
    ("gpt-4.1*", "o200k_base"),
    ("gpt-4.5*", "o200k_base"),
    ("gpt-5*", "o200k_base"),
    ("gpt-6*", "o200k_base"),
    ("chatgpt-4o*", "o200k_base"),
    ("o[134]", "o200k_base"),
    ("o[134]-*", "o200k_base"),
    ("codex-mini*", "o200k_base"),
    ("gpt-4*", "cl100k_base"),
    ("gpt-3.5*", "cl100k_base"),
    ("gpt-35*", "cl100k_base"),
    ("text-embedding-*", "cl100k_base"),
    ("*deepseek*distill*llama*", "llama3"),
    ("*deepseek*distill*qwen*", "qwen3"),
    ("*deepseek-v3*", "deepseek_v3"),
    ("*deepseek-r1*", "deepseek_v3"),
    ("*deepseek-chat*", "deepseek_v3"),
    ("*deepseek-reasoner*", "deepseek_v3"),
    ("*codellama*", "codellama"),
    ("*code-llama*", "codellama"),
    ("*tinyllama*", "llama2"),
    ("*llama-2*", "llama2"),
    ("*llama2*", "llama2"),
    ("*vicuna*", "llama2"),
    ("*mythomax*", "llama2"),
    ("*llama-3*", "llama3"),
    ("*llama3*", "llama3"),
    ("*mixtral-8x22b*", "mistral_v2"),
    ("*mixtral*", "mistral_v1"),
    ("*mistral-7b*v0.3*", "mistral_v2"),
    ("*mistral-7b*", "mistral_v1"),
    ("codestral-22b*", "mistral_v2"),
    ("*mistral-nemo*", "mistral_v3"),
    ("*mistral-large*", "mistral_v3"),
    ("*mistral-medium*", "mistral_v3"),
    ("*mistral-small*", "mistral_v3"),
    ("*ministral*", "mistral_v3"),
    ("*pixtral*", "mistral_v3"),
    ("*magistral*", "mistral_v3"),
    ("*devstral*", "mistral_v3"),
    ("*qwen2*", "qwen3"),
    ("*qwen-2*", "qwen3"),
    ("*qwen3*", "qwen3"),
    ("*qwen-3*", "qwen3"),
    ("*qwq*", "qwen3"),
    ("*glm-4*", "glm4"),
    ("*glm4*", "glm4"),
    ("*kimi-k3*", "kimi_k3"),
    ("*kimi*", "kimi_k2"),
    ("*gemma-2*", "gemma2"),
    ("*gemma2*", "gemma2"),
    ("*gemma-3*", "gemma3"),
    ("*gemma3*", "gemma3"),
    ("*gemma-4*", "gemma4"),
    ("*gemma4*", "gemma4"),
    ("*phi-4*", "phi4"),
    ("*olmo-2*", "olmo2"),
)

_CLOSEST: tuple[tuple[str, str], ...] = (
    ("*deepseek*", "deepseek_v3"),
    ("*llama*", "llama3"),
    ("*mistral*", "mistral_v3"),
    ("*codestral*", "mistral_v3"),
    ("*qwen*", "qwen3"),
    ("*glm*", "glm4"),
    ("*moonshot*", "kimi_k2"),
    ("*gemini*", "gemma3"),
    ("*gemma*", "gemma3"),
    ("*phi-*", "phi4"),
    ("*olmo*", "olmo2"),
)


def family_of(model: str) -> Family | None:
    """Return the tokenizer family of a model; None if its name is unknown.

    Names may include a provider and a variant: ``meta-llama/Llama-3.1-70B-Instruct:free``.
    """
    return _family_of(model)


def family_or_default(model: str | None) -> Family:
    """Return the tokenizer family of a model; unknown models get ``DEFAULT_TOKENIZER``."""
    return (_family_of(model) if model else None) or _DEFAULT


@lru_cache(maxsize=MODEL_CACHE_SIZE)
def _family_of(model: str) -> Family | None:
    name = model.strip().lower().partition(":")[0].rpartition("/")[2]
    for table, exact in ((_EXACT, True), (_CLOSEST, False)):
        for pattern, tokenizer in table:
            if fnmatchcase(name, pattern):
                return Family(tokenizer, exact)
    return None
