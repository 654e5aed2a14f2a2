"""What programs get that read the wrong thing: a message that says what to pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.silly_tavern import RegexScript, RegexScripts, WorldInfoSettings

LIST: Any = []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WorldInfoSettings.from_json(LIST), "data must be the object world_info_settings"),
        (lambda: RegexScript.from_json(LIST), "data must be the JSON object of a script, not list"),
        (lambda: RegexScripts.from_settings(LIST), "extension_settings must be that object of settings.json"),
    ],
)
def test_the_message_says_what_to_pass(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()
