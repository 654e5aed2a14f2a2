"""Dialects by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Literal, TypeAlias, overload

from tavernkit._values import JsonObject
from tavernkit.dialects._anthropic import to_anthropic
from tavernkit.dialects._google_and_cohere import to_cohere, to_google
from tavernkit.dialects._messages import MessageLike, as_messages
from tavernkit.dialects._openai import role_and_content, to_openai, to_text
from tavernkit.errors import ConfigError

Dialect: TypeAlias = Callable[..., object]
"""Gets a list of messages and the options as keywords (unknown ones are ignored); returns the payload."""

BUILT_IN: Mapping[str, Dialect] = {
    "openai": to_openai,
    "anthropic": to_anthropic,
    "google": to_google,
    "cohere": to_cohere,
    "ai21": role_and_content("ai21"),
    "mistral": role_and_content("mistral"),
    "xai": role_and_content("xai"),
    "text": to_text,
}
"""The dialects every registry starts with."""


class DialectRegistry:
    """Dialects by name. A program may have its own; ``convert()`` uses one for the whole process."""

    def __init__(self, dialects: Mapping[str, Dialect] = BUILT_IN) -> None:
        self._dialects = dict(dialects)

    def register(self, name: str, dialect: Dialect, *, replace: bool = False) -> None:
        """Add a dialect; pass ``replace`` to replace an existing one.

        Args:
            name: The name of the dialect.
            dialect: The function that converts messages.
            replace: Replace an existing dialect.

        Raises:
            ConfigError: A dialect with that name exists, and ``replace`` is False.
        """
        if name in self._dialects and not replace:
            raise ConfigError(
                f"there is a dialect {name!r} already: pass replace=True to put another in its place",
                code="DUPLICATE_DIALECT",
            )
        self._dialects[name] = dialect

    def unregister(self, name: str) -> None:
        """Remove a dialect."""
        self._find(name)
        del self._dialects[name]

    def registered(self) -> tuple[str, ...]:
        """Return the names of all dialects."""
        return tuple(self._dialects)

    def convert(self, messages: Iterable[MessageLike], dialect: str = "openai", **options: object) -> object:
        """Return the payload of a dialect; messages may also be mappings in OpenAI's shape.

        Args:
            messages: The messages.
            dialect: The name of the dialect.
            options: Options of the dialect.
        """
        return self._find(dialect)(as_messages(messages), **options)

    def _find(self, name: str) -> Dialect:
        found = self._dialects.get(name)
        if found is None:
            near = get_close_matches(name, self._dialects, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(self._dialects)}"
            raise ConfigError(f"no dialect {name!r}: {hint}", code="UNKNOWN_DIALECT")
        return found


_shared = DialectRegistry()


@overload
def convert(
    messages: Iterable[MessageLike], dialect: Literal["openai", "mistral", "ai21", "xai"] = "openai", **options: object
) -> list[JsonObject]: ...
@overload
def convert(
    messages: Iterable[MessageLike], dialect: Literal["anthropic", "google", "cohere", "text"], **options: object
) -> JsonObject: ...
@overload
def convert(messages: Iterable[MessageLike], dialect: str = "openai", **options: object) -> object: ...
def convert(messages: Iterable[MessageLike], dialect: str = "openai", **options: object) -> object:
    """Turn messages into a provider's payload: see the module of the dialect for its options.

    Args:
        messages: The messages to convert.
        dialect: The dialect's name, such as ``anthropic``.
        options: The dialect's own options.
    """
    return _shared.convert(messages, dialect, **options)


def register(name: str, dialect: Dialect, *, replace: bool = False) -> None:
    """Add a dialect for the whole process: see ``DialectRegistry.register()``.

    Args:
        name: The name of the dialect.
        dialect: The dialect to add.
        replace: Replace an existing dialect.
    """
    _shared.register(name, dialect, replace=replace)


def unregister(name: str) -> None:
    """Remove a dialect for the whole process."""
    _shared.unregister(name)


def registered() -> tuple[str, ...]:
    """Return the names of all dialects of the process."""
    return _shared.registered()
