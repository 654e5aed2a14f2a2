"""Exceptions of evaluation: a failing function, a failing text, a ``return``."""

from __future__ import annotations


class FunctionFailure(Exception):  # noqa: N818  # not an error: it is how RisuAI keeps a tag
    """A function failed; its tag stays in the text. The message says why."""


class ParseFailure(FunctionFailure):
    """RisuAI's parser itself would throw: the outer text has no result.

    A function that expands another text (a field, a message) fails with it; nothing else catches it.
    """


class Returned(Exception):  # noqa: N818  # not an error: the text has its result
    """``{{return}}`` ended the text."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value
