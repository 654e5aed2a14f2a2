"""Evaluating a tag: the calculator, or a function with its arguments."""

from __future__ import annotations

from tavernkit._text.js_values import to_string
from tavernkit._values import Json, is_object
from tavernkit.risu_ai._cbs.calculator import calculate
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.limits import FREE_CHARACTERS, SHORT_TAG
from tavernkit.risu_ai._cbs.registry import CBSFunction, normalize
from tavernkit.risu_ai._cbs.run import Run
from tavernkit.risu_ai._cbs.signals import FunctionFailure, ParseFailure

CALCULATOR = "? "
"""The prefix of calculator tags."""

OTHER_STAGES = frozenset(
    {
        *("asset", "emotion", "audio", "bg", "bgm", "video", "videoimg", "image", "img", "path", "raw", "source"),
        *("inlay", "inlayed", "inlayeddata", "assetprompt", "slot", "position", "arg", "original", "?"),
    }
)
"""Names that other stages of RisuAI handle: they stay in the text without a warning."""


def split_tag(tag: str) -> tuple[str, list[str]]:
    """Split a tag into its name and its arguments, at ``::`` or, in the old spelling, at every ``:``."""
    at = tag.find(":")
    name, *args = tag.split("::" if tag[at + 1 : at + 2] == ":" else ":") if at >= 0 else [tag]
    return name, args


def evaluate(run: Run, tag: str, buffer: list[str], position: int) -> str:
    """Return what a tag prints; ``buffer`` is the text before it."""
    if tag.startswith(CALCULATOR):
        return evaluate_expression(run, tag, position)
    name, args = split_tag(tag)
    function = run.session.engine.registry.get(name)
    if function is None:
        return keep_unknown(run, tag, name, position)
    return apply(run, function, tag, args, buffer, position)


def evaluate_expression(run: Run, tag: str, position: int) -> str:
    """Return the result of a calculator tag."""
    if len(tag) > SHORT_TAG:
        run.session.read(tag)
    try:
        return calculate(tag[2:], run.context)
    except FunctionFailure as failure:
        return run.keep(tag, str(failure), position)


def is_for_other_stages(tag: str, name: str) -> bool:
    """Return True if a tag is a comment, or one that other stages of RisuAI replace."""
    return tag.startswith("//") or normalize(name) in OTHER_STAGES


def keep_unknown(run: Run, tag: str, name: str, position: int) -> str:
    """Keep a tag with an unknown name; comments and tags of other stages are kept without a warning."""
    if is_for_other_stages(tag, name):
        return "{{" + tag + "}}"
    if tag.startswith("/"):
        return run.keep(tag, "it closes a block, but none is open", position)
    return run.keep(tag, f"there is no function {name!r}", position)


def apply(run: Run, function: CBSFunction, tag: str, args: list[str], buffer: list[str], position: int) -> str:
    """Call a function and return what it prints."""
    if len(tag) > SHORT_TAG:
        run.session.read(tag)
    try:
        result = function.handler(CBSCall(tag, args, run, buffer, position))
    except FunctionFailure as failure:
        return run.keep(tag, str(failure), position)
    if isinstance(result, str):
        if len(result) > FREE_CHARACTERS:
            run.session.produce(len(result))
        return result
    if not result and not isinstance(result, (list, dict)):
        return "{{" + tag + "}}"
    return _json_result(run, result)


def _json_result(run: Run, result: Json) -> str:
    """Print a result that is not text: RisuAI treats it as a pair of a text and new temp variables."""
    variables = result.get("var") if is_object(result) else None
    if not is_object(result) or variables is None:
        raise ParseFailure("a tag ended on a value that is not text, which breaks the whole text in RisuAI")
    run.temp.replace(variables)
    run.temp.check_return()
    return to_string(result["text"]) if "text" in result else "undefined"
