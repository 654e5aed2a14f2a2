"""Regex scripts."""

from __future__ import annotations

import re
from typing import Any

from tavernkit.silly_tavern._scripts.regex_replacement import RegexScriptError, regex_from_string
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScript, RegexScripts, migrate_script
from tests.conformance.adapters.silly_tavern.expand_macros import ExpandMacros
from tests.conformance.runner import Case


def run_script(given: Any) -> object:
    macros = ExpandMacros(given["user_name"], given["char_name"])
    script = RegexScript.from_json(given["script"])
    try:
        return {
            "text": script.run(
                given["text"],
                expand=macros,
                character=given["params"].get("characterOverride"),
                strict=True,
                warn=ignore,
            )
        }
    except RegexScriptError as error:
        return {"error": error.code}


def apply(given: Any) -> object:
    params = given["params"]
    depth = params.get("depth")
    scripts = RegexScripts(
        tuple(map(RegexScript.from_json, given["global"])),
        tuple(map(RegexScript.from_json, given["preset"])),
        tuple(map(RegexScript.from_json, given["scoped"])),
        preset_allowed=given["preset_allowed"],
        scoped_allowed=given["scoped_allowed"],
        enabled="regex" not in given["disabled_extensions"],
    )
    return {
        "text": scripts.apply(
            given["text"],
            given.get("placement"),
            expand=ExpandMacros(given["user_name"], given["char_name"]),
            is_markdown=params.get("isMarkdown", False),
            is_prompt=params.get("isPrompt", False),
            is_edit=params.get("isEdit", False),
            depth=depth if isinstance(depth, (int, float)) else None,
            character=params.get("characterOverride"),
            warn=ignore,
        )
    }


def parse(given: Any) -> object:
    regex = regex_from_string(given["text"])
    if regex is None:
        return {"invalid": True}
    return {"source": SHOWN.sub(shown, regex.source), "flags": regex.flags}


SHOWN = re.compile(r"(?s:\\.)|\[(?:(?s:\\.)|[^\]\\])*\]?|[/\n\r\u2028\u2029]")
LINE_ENDS = {"\n": "\\n", "\r": "\\r", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def shown(found: re.Match[str]) -> str:
    """JavaScript shows the source as it would stand between slashes; a slash in a class may stay as it is."""
    text = "\\/" if found[0] == "/" else found[0]
    for end, escape in LINE_ENDS.items():
        text = text.replace("\\" + end, escape).replace(end, escape)
    return text


def migrate(given: Any) -> object:
    return {"script": migrate_script(given["script"], new_id=lambda: "new")}


def ignore(message: str) -> None:
    """Wording is ours and not compared."""


OPERATIONS = {"run_script": run_script, "apply": apply, "regex_from_string": parse, "migrate": migrate}


def run(case: Case) -> object:
    return OPERATIONS[case.input["op"]](case.input)
