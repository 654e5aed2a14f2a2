"""What programs get that pass the wrong thing to the engines: a message that says what to pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.risu_ai import (
    CBSContext,
    CBSEngine,
    LorebookEngine,
    LorebookEntry,
    RegexScript,
    RegexScriptRunner,
    ScanInput,
    TriggerEngine,
)

NOTHING: Any = None
WORD: Any = "word"
LIST: Any = []
MESSAGES: Any = ["hello"]
ENTRY: Any = LorebookEntry(key="dragon")
SCRIPT: Any = RegexScript("a", "b")
CONTEXT = CBSContext(char="Bel", user="Ann")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CBSContext(char=LIST), "char must be a RisuCharacter, text or None, not list"),
        (lambda: CBSContext(writes=WORD), "writes must be one of keep, run, remove, not 'word'"),
        (lambda: CBSEngine().expand(NOTHING, CONTEXT), "text must be text, not None"),
        (lambda: CBSEngine().expand("plain", NOTHING), "context must be a CBSContext, not None"),
        (lambda: CBSEngine().evaluate("{{user}}", NOTHING), "context must be a CBSContext, not None"),
        (lambda: LorebookEngine().scan(LIST), "scan_input must be a ScanInput, not list"),
        (lambda: LorebookEngine().scan(ScanInput(entries=ENTRY)), "entries must be a list of LorebookEntry objects"),
        (
            lambda: LorebookEngine().scan(ScanInput(messages=MESSAGES)),
            r"messages\[-1\] must be a LoreMessage, not str 'hello'",
        ),
        (lambda: TriggerEngine(limits=LIST), "limits must be a TriggerLimits or None, not list"),
        (lambda: TriggerEngine().run(NOTHING, "start"), "context must be a CBSContext, not None"),
        (lambda: TriggerEngine().run(CONTEXT, "begin"), "mode must be one of start, manual, .*, not 'begin'"),
        (lambda: TriggerEngine().run(CONTEXT, "start", host=WORD), "host must be a TriggerHost"),
        (lambda: TriggerEngine().command(CONTEXT, NOTHING), "line must be text, not None"),
        (lambda: RegexScriptRunner().run(NOTHING, "editoutput", [], CONTEXT), "text must be text, not None"),
        (lambda: RegexScriptRunner().run("a", WORD, [], CONTEXT), "mode must be one of editinput, .*, not 'word'"),
        (lambda: RegexScriptRunner().run("a", "editoutput", SCRIPT, CONTEXT), "scripts must be a list .* in a list"),
        (lambda: RegexScript.from_json(LIST), "data must be the JSON object of a script, not list"),
    ],
)
def test_the_message_says_what_to_pass(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()
