"""What programs get that pass the wrong thing to the engines: a message that says what to pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.silly_tavern import (
    Group,
    MacroEngine,
    MacroEnvironment,
    MacroRegistry,
    Persona,
    RegexScript,
    RegexScripts,
    ScanInput,
    WorldBook,
    WorldInfoEngine,
    WorldInfoSettings,
)

NOTHING: Any = None
LIST: Any = []
WORD: Any = "word"
BOOKS: Any = [WorldBook("lore", {"entries": {}})]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MacroEngine().expand(NOTHING, MacroEnvironment()), "text must be text, not None"),
        (lambda: MacroEngine().evaluate("{{user}}", NOTHING), "environment must be a MacroEnvironment, not None"),
        (lambda: MacroRegistry().register("m", str, args=["n"]), "an argument of macro 'm' must be a MacroArgument"),
        (lambda: WorldInfoEngine().scan(LIST), "scan_input must be a ScanInput, not list"),
        (
            lambda: WorldInfoEngine().scan(ScanInput(messages=(), books=BOOKS, max_context=1, count_tokens=len)),
            r"books must be SelectedBooks, such as SelectedBooks\(global_=\(book,\)\), not list",
        ),
        (lambda: WorldInfoSettings.from_json(LIST), "data must be the object world_info_settings"),
        (lambda: Group(members=WORD), "members must be a list of the names of the cards' files, not str 'word'"),
        (lambda: Group(activation_strategy=WORD), "activation_strategy must be one of natural, list, manual, pooled"),
        (lambda: Group(generation_mode=WORD), "generation_mode must be one of swap, append, append_disabled"),
        (lambda: Persona("A traveller.", position="top"), "position must be one of in_prompt, top_an, bottom_an"),
        (lambda: RegexScript.from_json(LIST), "data must be the JSON object of a script, not list"),
        (lambda: RegexScripts.from_settings(LIST), "extension_settings must be that object of settings.json"),
    ],
)
def test_the_message_says_what_to_pass(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()
