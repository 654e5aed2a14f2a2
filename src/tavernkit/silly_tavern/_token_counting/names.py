"""Which tokenizer SillyTavern counts with for a chat-completion source and model.

SillyTavern uses two steps, and both are tables here: the page chooses a name by source and model, and the server maps
the name to a family. Patterns are case-sensitive globs; the first that matches wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from tavernkit._values import is_mapping

Patterns = tuple[tuple[str, str], ...]

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
        ("*GPT-NeoXT*", "gpt2"),
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
        ("*mistral*", "mistral"),
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
        ("*llama*", "llama3"),
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
"""By source: patterns of model names, and the tokenizer's name."""

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
"""By name: the family the server counts with. ``o1-pro`` is not an ``o1``, but ``foo3`` is, as in SillyTavern."""


def tokenizer_name(source: str, model: str, model_list: Sequence[Mapping[str, object]] = ()) -> str:
    """Return the name of the tokenizer that SillyTavern's page requests.

    Args:
        source: ``chat_completion_source``.
        model: The source's model.
        model_list: OpenRouter's list of models. It is not in a data folder; without it, the model's name decides.
    """
    patterns = NAMES.get(source, ())
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


def first_match(text: str, patterns: Patterns) -> str | None:
    """Return the value of the first pattern that matches a text."""
    return next((value for pattern, value in patterns if fnmatchcase(text, pattern)), None)
