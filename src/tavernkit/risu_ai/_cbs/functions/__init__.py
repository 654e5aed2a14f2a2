"""RisuAI's functions, one module per subject."""

from __future__ import annotations

from itertools import chain

from tavernkit.risu_ai._cbs.functions import (
    arrays,
    assets,
    encoding,
    history,
    identity,
    logic,
    markup,
    metadata,
    numbers,
    objects,
    randomness,
    settings,
    strings,
    times,
    variables,
)
from tavernkit.risu_ai._cbs.registry import CBSRegistry

MODULES = (
    identity,
    settings,
    metadata,
    assets,
    history,
    times,
    variables,
    logic,
    strings,
    encoding,
    markup,
    arrays,
    objects,
    numbers,
    randomness,
)
"""In the order in which documentation lists them."""


def standard_registry() -> CBSRegistry:
    """Make a registry of all functions of RisuAI 2026.1.90."""
    return CBSRegistry(chain.from_iterable(module.functions for module in MODULES))
