"""The start of a reply that a user writes into a message with ``{{bias "…"}}``."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._text.js_values import to_string
from tavernkit._values import EMPTY_OBJECT
from tavernkit.errors import Warn
from tavernkit.silly_tavern._context_template.handlebars.helpers import HELPERS, Helper, HelperCall
from tavernkit.silly_tavern._context_template.handlebars.parser import parse
from tavernkit.silly_tavern._context_template.handlebars.rendering import Names, Rendering
from tavernkit.silly_tavern.errors import InvalidContextTemplateError


def read_bias(message: str, warn: Warn) -> str:
    """Return the texts of all ``{{bias "…"}}``, joined by spaces and with one before them.

    The whole message is parsed as a Handlebars template: if one tag is malformed, none counts.
    """
    found: list[str] = []

    def bias(call: HelperCall) -> str:
        # Called without an argument, a helper gets its options instead.
        value = call.params[0] if call.params else EMPTY_OBJECT
        found.append("" if value is None else to_string(value))
        return ""

    helpers: Mapping[str, Helper] = {name: helper for name, helper in HELPERS.items() if name != "trim"}
    try:
        Rendering(message, Names(_nothing, {**helpers, "bias": bias}, strict=True)).start(parse(message), {})
    except InvalidContextTemplateError as error:
        warn(f"the bias of a message is ignored, because its tags are malformed: {error}")
        return ""
    return f" {' '.join(found)}" if found else ""


def _nothing(_name: str) -> None:
    """Return nothing: an unknown name has no value."""
