"""Public names that are imported when they are first used, so that ``import tavernkit`` stays quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_exports(package: str, modules: Mapping[str, tuple[str, ...]]) -> tuple[Callable[[str], object], list[str]]:
    """Make a package's ``__getattr__`` and ``__all__`` from submodule -> names; ``dir()`` lists them, too.

    The type checker sees the same names through an ``if TYPE_CHECKING`` block in the package.
    """
    owners = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> object:
        module = owners.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(module, package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *owners})

    setattr(sys.modules[package], "__dir__", names)  # noqa: B010  # a module's type does not know the name
    return load, sorted(owners)
