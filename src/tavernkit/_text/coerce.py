"""Reads options that people and programs write in many ways: names, codes, yes and no, language tags.

Nothing here raises: unreadable values give the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")
D = TypeVar("D")

_BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("1", "true", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "no", "n", "off"), False),
}
BLANKS = "\0\t\n\v\f\r "
"""The characters that are trimmed; no-break and ideographic spaces are not."""


def trim_blanks(text: str) -> str:
    """Remove blanks at both ends."""
    return text.strip(BLANKS)


def boolean(value: object, default: D) -> bool | D:
    """Read yes or no: a boolean, or one of 1 true yes y on / 0 false no n off in any case."""
    if isinstance(value, bool):
        return value
    return _BOOLEANS.get(_name(value), default)


def by_name_or_code(value: object, codes: tuple[T, ...], names: Mapping[str, T], default: D) -> T | D:
    """Read a choice by its name, in any case, or by its index in ``codes``."""
    name = _name(value)
    if len(name) == 1 and name in "0123456789":
        return codes[int(name)] if int(name) < len(codes) else default
    return names.get(name, default)


def _name(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    return trim_blanks(str(value)).lower()


_TAG = re.compile(
    r"""
    (?P<primary> [a-z]{2,8} )
    (?: - (?P<script> [a-z]{4} ) )?
    (?: - (?P<region> [a-z]{2} | [0-9]{3} ) )?
    (?P<rest>
        (?: - (?: [0-9][a-z0-9]{3} | [a-z0-9]{5,8} ) )*    # variants
        (?: - [a-wy-z0-9] (?: - [a-z0-9]{2,8} )+ )*        # extensions
        (?: - x (?: - [a-z0-9]{1,8} )+ )?                  # private use
    )
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


def language_tag(value: object) -> str | None:
    """Read a language tag (BCP 47) and return its usual spelling (``zh_hans_cn`` gives ``zh-Hans-CN``), or ``None``.

    Only the syntax is checked. Extended language subtags and tags that begin with ``x-`` or ``i-`` are not accepted.
    """
    if not isinstance(value, str):
        return None
    found = _TAG.fullmatch(trim_blanks(value).replace("_", "-"))
    if found is None:
        return None
    subtags = [found["primary"].lower()]
    if found["script"]:
        subtags.append(found["script"].capitalize())
    if found["region"]:
        subtags.append(found["region"].upper())
    return "-".join(subtags) + found["rest"].lower()
