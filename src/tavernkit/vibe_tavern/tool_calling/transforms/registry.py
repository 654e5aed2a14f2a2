"""A registry of named transforms of one kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from tavernkit.errors import ConfigError, Warn
from tavernkit.vibe_tavern.options import option_name

TransformT = TypeVar("TransformT", bound=Callable[..., object])


class TransformRegistry(Generic[TransformT]):
    """Transforms of one kind by name; names are compared whatever their case and hyphens.

    ``copy`` gives a registry that can be added to without changing the one everybody shares.
    """

    def __init__(self, kind: str, transforms: Mapping[str, TransformT]) -> None:
        self.kind = kind
        self._transforms = {option_name(name): transform for name, transform in transforms.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """Every name."""
        return tuple(self._transforms)

    def register(self, name: str, transform: TransformT) -> None:
        """Add a transform, in place of one with the same name."""
        if not option_name(name) or not callable(transform):
            raise ConfigError(f"a {self.kind} transform needs a name and a callable", code="INVALID_TRANSFORM")
        self._transforms = {**self._transforms, option_name(name): transform}

    def copy(self) -> TransformRegistry[TransformT]:
        """An independent registry with the same transforms."""
        return TransformRegistry(self.kind, self._transforms)

    def resolve(self, names: Iterable[str], *, strict: bool = False, warn: Warn | None = None) -> list[TransformT]:
        """Find transforms in order. An unknown name is an error in strict mode, else left out with a warning."""
        found: list[TransformT] = []
        for name in names:
            transform = self._transforms.get(option_name(name))
            if transform is not None:
                found.append(transform)
                continue
            message = f"there is no {self.kind} transform {name!r}; there are {', '.join(self._transforms)}"
            if strict:
                raise ConfigError(message, code=f"UNKNOWN_{self.kind.upper()}_TRANSFORM")
            if warn is not None:
                warn(message)
        return found
