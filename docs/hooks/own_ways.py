"""What the reference has to know of our code that is not plain Python."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).+)*", re.MULTILINE)
_OWN_DATACLASS = "tavernkit._dataclass.dataclass"


class OwnWays(griffe.Extension):
    """Shows the examples of docstrings as code, and our dataclasses with their parameters."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put a fence around every example: Markdown takes ``>>>`` for a quotation."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```python\n{found[0]}\n```", obj.docstring.value)

    def on_alias_instance(self, *, alias: griffe.Alias, **_: Any) -> None:
        """Let our decorator pass for the standard one, which is the only one that is understood."""
        if alias.target_path == _OWN_DATACLASS:
            alias.target_path = "dataclasses.dataclass"
