"""What programs get that read the wrong thing: a message that says what to pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.risu_ai import CBSContext, RegexScript, TriggerEngine

LIST: Any = []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RegexScript.from_json(LIST), "data must be the JSON object of a script, not list"),
        (lambda: TriggerEngine().run(CBSContext(), "begin"), "mode must be one of start, manual, .*, not 'begin'"),
    ],
)
def test_the_message_says_what_to_pass(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()
