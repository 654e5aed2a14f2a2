"""Having worker processes ready before a pattern needs one."""

from __future__ import annotations


def warm_up() -> None:
    """Start the worker processes that are kept for patterns that may run away; returns at once.

    Starting one takes about 10 ms, on a busy machine much longer, and counts against the budget of the call that first
    needs it. They end after a minute without work, and can be started again.
    """
    from tavernkit.text.js_regex.workers import pool

    pool.warm_up()
