"""What the reference has to know of our code that is not plain Python."""

from __future__ import annotations

import re
from typing import Any

import griffe

_MARK = re.compile(r" *# doctest: \+\w+$", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).+)*", re.MULTILINE)
_OWN_DATACLASS = "tavernkit._dataclass.dataclass"
_INPUTS_OF_CONTEXTS = (
    ("prompt._context.Context", "prompt._inputs.CommonInputs"),
    ("silly_tavern._context.SillyTavernContext", "silly_tavern._inputs.SillyTavernInputs"),
    ("risu_ai._context.RisuAIContext", "risu_ai._context.RisuAIInputs"),
    ("vibe_tavern._context.VibeTavernContext", "vibe_tavern._context.VibeTavernInputs"),
)


class OwnWays(griffe.Extension):
    """Shows examples of docstrings as code, our dataclasses with parameters, and contexts with described fields."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put a fence around every example (Markdown takes ``>>>`` for a quotation), and leave out marks for tests."""
        if obj.docstring is not None:
            shown = _MARK.sub("", obj.docstring.value)
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```python\n{found[0]}\n```", shown)

    def on_alias_instance(self, *, alias: griffe.Alias, **_: Any) -> None:
        """Let our decorator pass for the standard one, which is the only one that is understood."""
        if alias.target_path == _OWN_DATACLASS:
            alias.target_path = "dataclasses.dataclass"

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Describe the fields of contexts as the typed dictionaries of their inputs do."""
        for context, inputs in _INPUTS_OF_CONTEXTS:
            for member in pkg[context].members.values():
                if member.is_attribute and member.docstring is None:
                    described = pkg[inputs].members.get(member.name)
                    member.docstring = described.docstring if described else None
