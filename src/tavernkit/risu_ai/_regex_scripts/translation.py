"""Regex scripts of translations, and the style blocks that a translator must leave alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_values import parse_int
from tavernkit.errors import Warn
from tavernkit.risu_ai._js import replace_delimited
from tavernkit.risu_ai._regex_scripts.script import RegexScript

_STYLE = re.compile(r"<risu-style>(.*?)</risu-style>", re.DOTALL)
# Other spellings of the placeholder stay in the text.
_PLACE = re.compile(r'<style-data style-index="([0-9]+)" ?/?>')
_PLACE_END = "</style-data>"


def hide_styles(text: str) -> tuple[str, list[str]]:
    """Put placeholders where a text has style blocks, so that a translator leaves them alone."""
    styles: list[str] = []

    def hide(found: re.Match[str]) -> str:
        styles.append(found[1])
        return f'<style-data style-index="{len(styles) - 1}">{_PLACE_END}'

    return replace_delimited(_STYLE, "</risu-style>", hide, text), styles


def restore_styles(text: str, styles: Sequence[str]) -> str:
    """Put the contents of style blocks back into a translation; unknown places become empty.

    Args:
        text: The translation.
        styles: The contents that were taken out, in order.
    """

    def restore(found: re.Match[str]) -> str:
        number = parse_int(found[1])
        return styles[int(number)] if number < len(styles) else ""

    return _PLACE.sub(restore, text).replace(_PLACE_END, "")


def run_translation_scripts(text: str, scripts: Sequence[RegexScript], *, warn: Warn | None = None) -> str:
    """Run ``edittrans`` scripts; raises ``JSRegexSyntaxError`` on a bad pattern or flag.

    Here RisuAI is simpler than in other modes: flags are not cleaned (an empty one replaces the first match only), an
    empty pattern is used, and there are no actions, no order and no CBS.

    Args:
        text: The translated text.
        scripts: Scripts; those of other types are skipped.
        warn: Called with each warning.
    """
    for script in scripts:
        if script.type == "edittrans":
            regex = JSRegex.compile(script.pattern, script.flag if script.able_flag else "g")
            text = regex.replace(text, script.out.replace("$n", "\n"), warn=warn)
    return text
