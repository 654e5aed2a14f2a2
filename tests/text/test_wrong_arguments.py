"""Wrong arguments to the functions of ``tavernkit.text`` that programs may call."""

from __future__ import annotations

import pytest

from tavernkit import ConfigError
from tavernkit.text import json_pointer, keys, pattern_matcher, verbatim_masker
from tavernkit.text.keys import KeyReader
from tavernkit.text.load_hooks import LoadHooks
from tavernkit.text.verbatim_masker import EscapeHatch
from tests.wrong_arguments import Call, Odd, Sweep

DOCUMENT = {"a": [1]}
READER = KeyReader(DOCUMENT)

CALLS: dict[str, dict[str, Call]] = {
    "tavernkit.text.json_pointer": {
        "delete": (json_pointer.delete, {"document": DOCUMENT, "pointer": "/a"}),
        "escape": (json_pointer.escape, {"token": "a"}),
        "from_tokens": (json_pointer.from_tokens, {"keys": ["a"]}),
        "is_valid": (json_pointer.is_valid, {"pointer": "/a"}),
        "resolve": (json_pointer.resolve, {"document": DOCUMENT, "pointer": "/a"}),
        "set_value": (json_pointer.set_value, {"document": DOCUMENT, "pointer": "/a", "value": 1}),
        "tokens": (json_pointer.tokens, {"pointer": "/a"}),
        "unescape": (json_pointer.unescape, {"token": "a"}),
    },
    "tavernkit.text.keys": {
        "KeyReader": (KeyReader, {"values": DOCUMENT}),
        "KeyReader.boolean": (READER.boolean, {"key": "a"}),
        "KeyReader.get": (READER.get, {"key": "a"}),
        "KeyReader.integer": (READER.integer, {"key": "a"}),
        "KeyReader.positive_integer": (READER.positive_integer, {"key": "a"}),
        "KeyReader.presence": (READER.presence, {"key": "a"}),
        "KeyReader.text": (READER.text, {"key": "a"}),
        "camelize": (keys.camelize, {"key": "a_b"}),
        "convert_keys": (keys.convert_keys, {"value": DOCUMENT, "convert": str}),
        "format_text": (keys.format_text, {"template": "{0}"}),
        "underscore": (keys.underscore, {"key": "aB"}),
    },
    "tavernkit.text.load_hooks": {
        "LoadHooks.on_load": (LoadHooks().on_load, {"scope": "a", "hook": print}),
        "LoadHooks.reset": (LoadHooks().reset, {}),
        "LoadHooks.run": (LoadHooks().run, {"scope": "a", "payload": 1}),
    },
    "tavernkit.text.pattern_matcher": {"matches": (pattern_matcher.matches, {"pattern": "a", "text": "a"})},
    "tavernkit.text.verbatim_masker": {
        "EscapeHatch": (EscapeHatch, {}),
        "EscapeHatch.from_mapping": (EscapeHatch.from_mapping, {"value": {}}),
        "mask": (verbatim_masker.mask, {"text": "a"}),
        "unmask": (verbatim_masker.unmask, {"text": "a", "placeholders": {}}),
    },
}
"""Besides these, ``coerce``, ``language_tag`` and ``string_lists`` take anything, which is what they are for; the other
modules serve our own engines."""

ANYTHING: dict[str, dict[str, str]] = {
    "tavernkit.text.json_pointer": {
        "escape.token": "a key is written as text, whatever it is",
        "is_valid.pointer": "it tells whether it is one",
        "resolve.default": "whatever the caller wants back",
        "resolve.document": "a document of any kind: what has no parts has nothing in it",
        "set_value.value": "whatever the document is to hold",
        "unescape.token": "a key is written as text, whatever it is",
    },
    "tavernkit.text.keys": {
        "KeyReader.get.default": "whatever the caller wants back",
        "KeyReader.presence.default": "whatever the caller wants back",
        "convert_keys.value": "a document of any kind",
        "format_text.arguments": "whatever can be written as text",
    },
    "tavernkit.text.load_hooks": {"LoadHooks.run.payload": "the hooks' own"},
    "tavernkit.text.pattern_matcher": {},
    "tavernkit.text.verbatim_masker": {"EscapeHatch.from_mapping.value": "options, refused as `escape_hatch`, below"},
}


SWEEPS = {module: Sweep(module, calls, anything=ANYTHING[module]) for module, calls in CALLS.items()}


@pytest.mark.parametrize("module", SWEEPS)
def test_every_public_name_is_called(module: str) -> None:
    SWEEPS[module].assert_complete()


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, calls in CALLS.items() for name in calls])
def test_right_arguments_are_taken(module: str, name: str) -> None:
    SWEEPS[module].call(name)


@pytest.mark.parametrize(
    ("module", "name", "parameter"),
    [(module, *pair) for module, sweep in SWEEPS.items() for pair in sweep.pairs()],
)
def test_wrong_arguments_are_refused_by_name(module: str, name: str, parameter: str) -> None:
    SWEEPS[module].assert_refused(name, parameter)


def test_the_options_of_an_escape_hatch_are_refused_by_their_name() -> None:
    with pytest.raises(ConfigError, match=r"^escape_hatch must be an object with enabled and mode, not <"):
        EscapeHatch.from_mapping(Odd())
