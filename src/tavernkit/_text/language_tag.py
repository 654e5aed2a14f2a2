"""Language tags (BCP 47), by syntax only: no registry, no aliases."""

from __future__ import annotations

import re

from tavernkit._text.coerce import trim_blanks

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


def normalize(value: object) -> str | None:
    """Return a tag in its usual spelling (``zh_hans_cn`` gives ``zh-Hans-CN``), or ``None`` if it is not a tag.

    Extended language subtags and tags that begin with ``x-`` or ``i-`` are not accepted.
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
