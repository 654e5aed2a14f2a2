"""What is loaded when it is first used, so that imports stay quick: public names, and files of data."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

_EXPORT = re.compile(r"^from (tavernkit[\w.]*) import (?:\(\s+)?(\w+) as \2\b", re.MULTILINE)


def lazy_exports(package: str) -> tuple[Callable[[str], object], list[str]]:
    """Make a package's ``__getattr__`` and ``__all__`` from the imports in its ``__init__.pyi``.

    The stub is the one list of public names: type checkers, editors and this function read it. A subpackage that the
    stub imports is also an attribute, but ``import *`` does not include it.

    Args:
        package: The package's ``__name__``.
    """
    module = sys.modules[package]
    stub = Path(str(module.__file__)).with_name("__init__.pyi").read_text(encoding="utf-8")
    owners = {name: owner for owner, name in _EXPORT.findall(stub)}

    def load(name: str) -> object:
        owner = owners.get(name)
        if owner is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if owner == package:
            return import_module(f"{package}.{name}")
        value: object = getattr(import_module(owner), name)
        setattr(module, name, value)
        return value

    setattr(module, "__dir__", lambda: sorted({*vars(module), *owners} - {"lazy_exports"}))  # noqa: B010  # a module's type does not know the name
    return load, sorted(name for name, owner in owners.items() if owner != package)


def read_data(package: str, name: str) -> str:
    """Return the text of a file in a package's folder ``data``; importing ``importlib.resources`` takes longer."""
    return (Path(str(sys.modules[package].__file__)).parent / "data" / name).read_text(encoding="utf-8")
