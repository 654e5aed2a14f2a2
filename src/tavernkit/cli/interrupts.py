"""Handles Ctrl+C at an input prompt."""

from __future__ import annotations

import select
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

AGAIN_SECONDS = 0.1
"""How long to wait before an unnoticed Ctrl+C is sent again."""
MAX_SIGNALS = 50


@contextmanager
def interruptible_input() -> Generator[None]:
    """Let Ctrl+C interrupt keyboard input at once.

    A signal that arrives just before ``input`` starts waiting does not wake it up, and would be noticed only with the
    next line. So a thread repeats the signal until it is noticed.
    """
    known = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not known or not hasattr(signal, "pthread_kill") or threading.current_thread() is not threading.main_thread():
        yield
        return
    noticed = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    watcher = threading.Thread(
        target=_send_again, args=(reader, threading.get_ident(), noticed), name="tavernkit-interrupts", daemon=True
    )

    def raise_interrupt(number: int, frame: FrameType | None) -> None:
        noticed.set()
        signal.default_int_handler(number, frame)

    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, raise_interrupt)
    watcher.start()
    try:
        yield
    finally:
        noticed.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(before)
        writer.close()
        watcher.join()
        reader.close()


def _send_again(reader: socket.socket, thread: int, noticed: threading.Event) -> None:
    select.select([reader], [], [])
    if reader.recv(1) != bytes([signal.SIGINT]):
        return  # the prompt is over
    for _ in range(MAX_SIGNALS):
        if noticed.wait(AGAIN_SECONDS):
            return
        signal.pthread_kill(thread, signal.SIGINT)
