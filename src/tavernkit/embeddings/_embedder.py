"""Embedders, which turn texts into vectors."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from tavernkit.errors import ConfigError

BATCH_SIZE = 64
"""Texts that are sent in one request."""


class Embedder(Protocol):
    """Turns texts into vectors. All vectors of an embedder have the same length."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text, in order."""
        ...


class OpenAIEmbedder:
    """Asks an OpenAI-compatible embeddings endpoint. Needs the ``openai`` package, or your own client."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        batch_size: int = BATCH_SIZE,
        client: object = None,
    ) -> None:
        """Make an embedder.

        Args:
            model: The embedding model's name.
            base_url: The address of the endpoint; OpenAI's by default.
            api_key: The key; by default the environment variable ``OPENAI_API_KEY``.
            batch_size: Texts in one request.
            client: Your own ``openai.OpenAI``, instead of the two above.

        Raises:
            ConfigError: The batch size is not positive, or the ``openai`` package is not installed.
        """
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, not {batch_size}")
        self.model = model
        self._batch_size = batch_size
        if client is None:
            try:
                package = importlib.import_module("openai")
            except ModuleNotFoundError as error:
                raise ConfigError(
                    "OpenAIEmbedder needs the openai package: pip install openai", code="EXTRA_MISSING"
                ) from error
            client = package.OpenAI(base_url=base_url, api_key=api_key)
        self._client = cast("_Client", client)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order."""
        found: list[list[float]] = []
        for start in range(0, len(texts), self._batch_size):
            batch = list(texts[start : start + self._batch_size])
            answer = self._client.embeddings.create(model=self.model, input=batch)
            rows = sorted(answer.data, key=lambda row: row.index)
            if len(rows) != len(batch):
                raise ValueError(f"the endpoint gave {len(rows)} vectors for {len(batch)} texts")
            found += [list(row.embedding) for row in rows]
        return found


class LocalEmbedder:
    """Makes vectors on this machine with the extra ``fastembed``, which downloads its model on first use."""

    def __init__(self, model: str = "BAAI/bge-small-en-v1.5") -> None:
        """Make an embedder.

        Args:
            model: A model that ``fastembed`` knows.

        Raises:
            ConfigError: The extra is not installed.
        """
        self.model = model
        try:
            package = importlib.import_module("fastembed")
        except ModuleNotFoundError as error:
            raise ConfigError(
                "LocalEmbedder needs its extra: pip install 'tavernkit[fastembed]'", code="EXTRA_MISSING"
            ) from error
        self._model = cast("_LocalModel", package.TextEmbedding(model_name=model))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order."""
        return [[float(number) for number in vector] for vector in self._model.embed(list(texts))]


class _LocalModel(Protocol):
    def embed(self, documents: list[str]) -> Iterable[Iterable[float]]: ...


class _Row(Protocol):
    index: int
    embedding: Sequence[float]


class _Answer(Protocol):
    data: Sequence[_Row]


class _Embeddings(Protocol):
    def create(self, *, model: str, input: list[str]) -> _Answer: ...  # noqa: A002  # OpenAI's name


class _Client(Protocol):
    embeddings: _Embeddings
