"""RisuAI's functions, grouped by subject."""

from __future__ import annotations

from itertools import chain

from tavernkit.risu_ai._cbs.functions.arrays import array_functions, object_functions
from tavernkit.risu_ai._cbs.functions.chat import asset_functions, history_functions, identity_functions
from tavernkit.risu_ai._cbs.functions.markup import markup_functions
from tavernkit.risu_ai._cbs.functions.numbers import logic_functions, number_functions, random_functions
from tavernkit.risu_ai._cbs.functions.settings import metadata_functions, setting_functions
from tavernkit.risu_ai._cbs.functions.strings import encoding_functions, text_functions
from tavernkit.risu_ai._cbs.functions.times import time_functions
from tavernkit.risu_ai._cbs.functions.variables import variable_functions
from tavernkit.risu_ai._cbs.registry import CBSRegistry

GROUPS = (
    identity_functions,
    setting_functions,
    metadata_functions,
    asset_functions,
    history_functions,
    time_functions,
    variable_functions,
    logic_functions,
    text_functions,
    encoding_functions,
    markup_functions,
    array_functions,
    object_functions,
    number_functions,
    random_functions,
)
"""In the order in which documentation lists them."""


def standard_registry() -> CBSRegistry:
    """Make a registry of all functions of RisuAI 2026.1.90."""
    return CBSRegistry(chain.from_iterable(GROUPS))
