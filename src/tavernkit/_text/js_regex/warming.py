"""Starts worker processes before a pattern needs one."""

from __future__ import annotations


def warm_up() -> None:
    """Start the worker processes for slow patterns; returns at once.

    Starting one takes about 20 ms, which the first call would have to wait for. They end after a minute without work,
    and can be started again.
    """
    from tavernkit._text.js_regex.guard import JOB
    from tavernkit._workers.pool import pool

    pool.expect(JOB)
    pool.warm_up()
