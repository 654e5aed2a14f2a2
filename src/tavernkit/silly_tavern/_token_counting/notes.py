"""How far token counts may be off, for plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tavernkit.silly_tavern._token_counting.text_tokenizer import (
    KOBOLD_API,
    NOT_CONNECTED,
    TEXT_API,
    TOKENIZERS,
    TextBackend,
    chosen_tokenizer,
)
from tavernkit.silly_tavern._token_counting.vocabularies import ESTIMATE, VocabularyInUse

OTHER_TOKENIZER = "counts may be off by up to 20 % in all, single texts by more"
"""The difference between the bundled vocabularies, measured over the recorded texts."""

ALWAYS_BY_NAME = ("openai/", "anthropic/")
"""Vendors whose models OpenRouter lists with tokenizers for which SillyTavern looks at the model's name anyway."""


def chat_note(source: str, model: str, model_list: Sequence[Mapping[str, object]], used: VocabularyInUse) -> str:
    """Return how far counts of chat completion may be off, or an empty text.

    Args:
        source: ``chat_completion_source``.
        model: The source's model.
        model_list: OpenRouter's list of models, if known.
        used: The vocabulary that counts.
    """
    unlisted = source == "openrouter" and "/" in model and not model.startswith(ALWAYS_BY_NAME)
    return _joined(used.stands_in, _unlisted(model, used) if unlisted and not _is_listed(model, model_list) else "")


def text_note(setting: int, backend: TextBackend, used: VocabularyInUse) -> str:
    """Return how far counts of text completion may be off, or an empty text.

    Args:
        setting: ``power_user.tokenizer``.
        backend: The backend in the settings.
        used: The vocabulary that counts.
    """
    return _joined(used.stands_in, _of_backend(setting, backend, used) if backend.online == NOT_CONNECTED else "")


def _of_backend(setting: int, backend: TextBackend, used: VocabularyInUse) -> str:
    """Return what SillyTavern would do differently if it were connected to the backend."""
    chosen = chosen_tokenizer(setting, backend)
    connected = chosen_tokenizer(setting, replace(backend, online="connected", supported=True, can_tokenize=True))
    if connected in (TEXT_API, KOBOLD_API):
        name = backend.type if connected == TEXT_API else backend.main_api
        return f"SillyTavern lets {name} count while it is connected; {_called(used)} is used: {OTHER_TOKENIZER}"
    if connected == chosen:
        return ""
    if backend.type == "openrouter" and not _is_listed(backend.model, backend.model_list):
        return _unlisted(backend.model, used)
    other = TOKENIZERS[connected]
    return f"SillyTavern counts with {other} while it is connected; {_called(used)} is used: {OTHER_TOKENIZER}"


def _unlisted(model: str, used: VocabularyInUse) -> str:
    return (
        f"OpenRouter's list of models, which names tokenizers, is not known for {model} (model_list=): "
        f"{_called(used)} is used, and {OTHER_TOKENIZER}"
    )


def _called(used: VocabularyInUse) -> str:
    return "an estimate" if used.name == ESTIMATE else used.name


def _is_listed(model: str, model_list: Sequence[Mapping[str, object]]) -> bool:
    return any(entry.get("id") == model for entry in model_list)


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
