"""Where a block that is not evaluated ends."""

from __future__ import annotations

from tavernkit.risu_ai.cbs.limits import LEVEL_SLOTS
from tavernkit.risu_ai.cbs.source import CLOSE, OPENERS

_BLOCK, _RAW, _TAG = range(3)


def closes_alike(tokens: list[str], start: int, end: int) -> bool:
    """Return True if a block closes at the same token when its body is not evaluated, and has nothing to carry out.

    ``tokens`` alternate between plain text and what opens or closes; ``start`` is the first of the body, ``end`` the
    one that closes the block when the body is evaluated.
    """
    levels = [_BLOCK]
    heads: list[str] = []
    for index in range(start + 1, end + 1, 2):
        token = tokens[index]
        if token in OPENERS:
            levels.append(_TAG)
            heads.append(tokens[index + 1])
            if len(levels) >= LEVEL_SLOTS // 2:
                return False
        elif levels[-1] == _TAG:
            head = heads.pop()
            if token != CLOSE or head.startswith("call::"):
                return False  # legacy blocks and calls are carried out even here
            levels.pop()
            if head[:1] == "#" or head[:1] == ":":
                levels.append(_RAW)
            elif head[:1] == "/" and head[:2] != "//" and levels[-1] != _TAG:
                levels.pop()
                if not levels:
                    return index == end
    return False
