"""Counts tokens for provider model ids: which tokenizer belongs to which model, and where its file is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import trim_blanks
from tavernkit.budget._estimator import TokenEstimator
from tavernkit.models import Model, ModelError, Request
from tavernkit.prompt._inputs import Estimator

TOKENIZER_ROOT_VARIABLE: Final = "TAVERNKIT_TOKENIZER_ROOT"
TOKENIZER_FILE: Final = "tokenizer.json"
MAX_ROOTS: Final = 8
"""How many folders of tokenizer files stay loaded."""


@dataclass(frozen=True, slots=True)
class ModelTokenizer:
    """Which tokenizer a model uses; ``repo`` is where its file comes from, None for one without a file."""

    hint: str
    family: str
    repo: str | None = None


_FILES: Final = (
    ("deepseek-v3", "deepseek-ai/DeepSeek-V3-0324"),
    ("deepseek-v3.2", "deepseek-ai/DeepSeek-V3.2"),
    ("qwen3", "Qwen/Qwen3-30B-A3B-Instruct-2507"),
    ("qwen3-30b-a3b-instruct", "Qwen/Qwen3-30B-A3B-Instruct-2507"),
    ("qwen3-next-80b-a3b-instruct", "Qwen/Qwen3-Next-80B-A3B-Instruct"),
    ("qwen3-235b-a22b-instruct-2507", "Qwen/Qwen3-235B-A22B-Instruct-2507"),
    ("glm-4.7", "zai-org/GLM-4.7"),
    ("glm-4.7-flash", "zai-org/GLM-4.7-Flash"),
    ("minimax-m2.1", "MiniMaxAI/MiniMax-M2.1"),
)

MODELS: Final = (
    *(ModelTokenizer(hint, "hf_tokenizers", repo) for hint, repo in _FILES),
    ModelTokenizer("kimi-k2.5", "tiktoken"),
)
"""The models with their own tokenizer."""

_RULES: Final = (
    ("deepseek-v3.2", "deepseek-v3.2"),
    ("deepseek-chat-v3-0324", "deepseek-v3"),
    ("deepseek-v3-0324", "deepseek-v3"),
    ("deepseek", "deepseek-v3.2"),
    ("qwen3-next-80b-a3b-instruct", "qwen3-next-80b-a3b-instruct"),
    ("qwen3-235b-a22b", "qwen3-235b-a22b-instruct-2507"),
    ("qwen3-30b-a3b-instruct", "qwen3-30b-a3b-instruct"),
    ("qwen3", "qwen3"),
    ("glm-4.7-flash", "glm-4.7-flash"),
    ("glm-4.7", "glm-4.7"),
    ("kimi-k2.5", "kimi-k2.5"),
    ("minimax-m2", "minimax-m2.1"),
)
"""Part of a model id (lower case) and its hint; the first match counts."""


def canonical_model_hint(model: str) -> str:
    """Return the tokenizer of a provider's model id: ``deepseek/deepseek-v3.2:nitro`` counts as ``deepseek-v3.2``."""
    name = trim_blanks(model).partition(":")[0]
    lowered = name.lower()
    if lowered.startswith("openai/"):
        return name.partition("/")[2]
    return next((hint for part, hint in _RULES if part in lowered), name)


def default_tokenizer_root() -> Path:
    """Return the folder of tokenizer files: TAVERNKIT_TOKENIZER_ROOT, or the user's data folder."""
    configured = os.environ.get(TOKENIZER_ROOT_VARIABLE)
    if configured and trim_blanks(configured):
        return Path(trim_blanks(configured)).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "tavernkit" / "tokenizers"


def tokenizer_path(hint: str, root: Path) -> Path:
    """Return the path of a tokenizer's file."""
    return root / hint / TOKENIZER_FILE


def registry(root: Path | None = None) -> dict[str, Mapping[str, object]]:
    """Make the registry of models whose tokenizer file exists; others use their family's tokenizer."""
    root = default_tokenizer_root() if root is None else root
    entries: dict[str, Mapping[str, object]] = {}
    for model in MODELS:
        entry: dict[str, object] = {"tokenizer_family": model.family, "source_hint": model.hint}
        if model.repo is not None:
            path = tokenizer_path(model.hint, root)
            if not path.is_file():
                continue
            entry |= {"source_repo": model.repo, "tokenizer_path": str(path)}
        entries[model.hint] = entry
    return entries


def estimator(tokenizer_root: Path | str | None = None) -> TokenEstimator:
    """Return the estimator with the tokenizer files of a folder; it keeps what it has loaded."""
    return estimator_of(Path(tokenizer_root).expanduser() if tokenizer_root is not None else default_tokenizer_root())


@lru_cache(maxsize=MAX_ROOTS)
def estimator_of(root: Path) -> TokenEstimator:
    """Return the estimator of a folder, as long as its files stay the same."""
    return TokenEstimator(registry=registry(root))


@dataclass(frozen=True, slots=True)
class AuditedModel:
    """How tokens of one model id are counted: ``hit`` with its own tokenizer, else ``missing_file`` or ``miss``."""

    model: str
    """The provider's model id."""
    hint: str
    """The tokenizer that belongs to it, by its short name."""
    status: str
    """``hit``, ``missing_file`` or ``miss``; see above."""
    description: Mapping[str, object]
    """How its tokens are counted: the backend and its options."""


def audit_models(models: list[str], *, tokenizer_root: Path | str | None = None) -> list[AuditedModel]:
    """Return for each model id how its tokens are counted.

    Args:
        models: The model ids.
        tokenizer_root: The folder of tokenizer files.
    """
    counting = estimator(tokenizer_root)
    known = {model.hint for model in MODELS}
    audited: list[AuditedModel] = []
    for model in models:
        hint = canonical_model_hint(model)
        description = counting.describe(hint)
        found = "hit" if description.get("registry") else "missing_file"
        status = found if hint in known else "miss"
        audited.append(AuditedModel(model, hint, status, description))
    return audited


SAMPLE = (
    {"role": "system", "content": "You are a careful assistant. Answer in one word."},
    {"role": "user", "content": "The quick brown fox jumps over the lazy dog. Ünïcödé, 日本語, 한국어 and `code` too."},
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Estimated and counted prompt tokens of one model."""

    model: str
    """The model."""
    hint: str
    """The tokenizer that the estimate asks for."""
    estimated: int
    """Estimated tokens of the messages."""
    counted: int | None = None
    """The tokens that the provider counts."""
    problem: str | None = None
    """Why there is no count."""

    @property
    def difference(self) -> int | None:
        """How many more tokens the provider counts, because of templates and overhead."""
        return None if self.counted is None else self.counted - self.estimated

    @property
    def ratio(self) -> float | None:
        """Counted divided by estimated tokens."""
        return None if self.counted is None or not self.estimated else self.counted / self.estimated


async def calibrate(
    models: Iterable[Model],
    *,
    messages: Sequence[Mapping[str, str]] = SAMPLE,
    token_estimator: Estimator | None = None,
) -> list[Calibration]:
    """Send one small request to each model, and compare the tokens that it counts with the estimate.

    Args:
        models: The models.
        messages: The messages that are sent and counted.
        token_estimator: Counts tokens; by default the estimator of prompts.
    """
    counting = token_estimator or estimator()
    results: list[Calibration] = []
    for model in models:
        hint = canonical_model_hint(model.name)
        estimated = sum(counting.estimate(message["content"], hint) for message in messages)
        counted, problem = None, None
        try:
            usage = (await model.send(Request(messages=messages, options={"max_tokens": 1}))).usage
        except ModelError as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            counted, problem = (usage.input_tokens, None) if usage.reported else (None, "the provider reports no usage")
        results.append(Calibration(model.name, hint, estimated, counted, problem))
    return results
