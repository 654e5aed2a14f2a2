"""Removes secrets from everything that leaves a model: errors, bodies, headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, is_list, is_object

REPLACEMENT: Final = "[redacted]"
_MIN_LENGTH: Final = 4
"""Shorter values are not secrets, and replacing them would spoil texts."""
_SENSITIVE: Final = ("authorization", "auth", "key", "token", "secret", "cookie", "password")


@dataclass(frozen=True, slots=True)
class Redactor:
    """Knows secrets and replaces them wherever they are."""

    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, *secrets: str | None, headers: Mapping[str, str] | None = None) -> Redactor:
        """Collect secrets, and the values of headers whose names mark them as secret."""
        found = [secret for secret in secrets if secret]
        for name, value in (headers or {}).items():
            if is_sensitive(name):
                found += [value, *value.split()]
        usable = {secret for secret in found if len(secret) >= _MIN_LENGTH and secret.lower() not in _WORDS}
        return cls(tuple(sorted(usable, key=len, reverse=True)))

    def with_headers(self, headers: Mapping[str, str]) -> Redactor:
        """Return a redactor that also knows the secrets of these headers."""
        found = Redactor.of(*self.secrets, headers=headers)
        return self if found.secrets == self.secrets else found

    def text(self, text: str) -> str:
        """Remove secrets from a text."""
        for secret in self.secrets:
            text = text.replace(secret, REPLACEMENT)
        return text

    def json(self, value: Json) -> Json:
        """Remove secrets from JSON, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if is_list(value):
            return [self.json(item) for item in value]
        if is_object(value):
            return {self.text(key): self.json(item) for key, item in value.items()}
        return value

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Remove secrets from headers; values of sensitive headers are replaced completely."""
        return {name: REPLACEMENT if is_sensitive(name) else self.text(value) for name, value in headers.items()}


_WORDS: Final = frozenset(("bearer", "basic", "digest", "token"))


def is_sensitive(name: str) -> bool:
    """Return True if a header with this name contains a secret."""
    lowered = name.lower()
    return any(word in lowered for word in _SENSITIVE)
