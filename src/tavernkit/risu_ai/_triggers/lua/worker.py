"""The job of worker processes that run Lua scripts: a separate file, which imports only lupa.

Replies and questions are JSON objects, because a process that runs scripts is not trusted; requests and answers are
marshalled, which is faster. A sandbox is a Lua state with one script in it; it lives
until it is closed or its process ends.

Waiting for an answer takes longer than most handlers. So a request brings the variables that the script has read
before, and writes of variables, which return nothing, wait for the next message to the host.
"""

from __future__ import annotations

import json
import marshal
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    class _Runtime(Protocol):
        def execute(self, lua_code: bytes, *args: object) -> Any: ...

        def get_memory_used(self) -> int | None: ...

    class _Table(Protocol):
        def items(self) -> Iterable[tuple[object, object]]:
            """Keys and values, read without metamethods."""
            ...

    class _Lupa(Protocol):
        """The part of lupa that is used."""

        LuaError: type[Exception]

        def lua_type(self, value: object) -> str | None: ...

        def LuaRuntime(self, **options: object) -> _Runtime: ...  # noqa: N802  # lupa's name


MAX_TABLE_DEPTH = 50
"""How deeply a table for the host may be nested."""

MAX_TABLE_ITEMS = 100_000
"""How many values it may have."""

OUT_OF_MEMORY, OUT_OF_TIME = "memory", "time"
"""Why a script was stopped."""

_DENIED = b"denied"
"""The answer to a script if its key does not allow the function."""

READ, WRITE = "getChatVar", "setChatVar"
"""The functions for variables, which need no message of their own most of the time."""

MAX_WAITING = 64
"""How many writes may wait: those of a process that is ended are lost."""

MAX_KEPT_TEXT = 4096
"""Longer texts are written at once, and not kept for the next read."""

MAX_KNOWN = 256
"""How many variables are kept for the next read."""

_TEXT_SHARE = 4
"""One text may take this part of a script's memory."""

_MAX_INTEGER, _MAX_SAFE_INTEGER = 2**63, 2**53 - 1
_MAX_MESSAGE = 500
_NOT_ENOUGH_MEMORY = "not enough memory"
_encode = json.JSONEncoder(ensure_ascii=False).encode


class _UnreadableError(Exception):
    """A table cannot be converted; the message says why."""


class Handler:
    """Runs scripts."""

    def __init__(self) -> None:
        self._lupa: _Lupa = import_module("lupa.lua54")  # pyright: ignore[reportAttributeAccessIssue]  # no types
        self._states: dict[int, _LuaState] = {}
        self._link = _HostLink(self._lupa)

    def handle(self, payload: bytes, ask: Callable[[bytes], bytes]) -> bytes:
        """Load a script, or call what one has."""
        request = marshal.loads(payload)  # noqa: S302  # from our own process
        for closed in request["closed"]:
            self._states.pop(closed, None)
        before = self._link.ask
        self._link.begin(ask, request["variables"])
        try:
            reply = self._answer(request)
        finally:
            self._link.begin(before, {})
        return _to_json(reply)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        number = request["sandbox"]
        if "sources" in request:
            self._states[number] = _LuaState(self._lupa, self._link, request)
        state, link = self._states[number], self._link
        try:
            return link.with_variables({"value": state.run(request), "memory": state.memory_used})
        except _UnreadableError as error:
            return link.with_variables({"error": str(error), "memory": state.memory_used})
        except (self._lupa.LuaError, MemoryError) as error:
            reply = link.with_variables({"error": _message(error), "memory": 0})
            if isinstance(error, MemoryError) or reply["error"] == _NOT_ENOUGH_MEMORY or not state.has_room:
                reply["stopped"] = OUT_OF_MEMORY
            elif state.is_spent:
                reply["stopped"] = OUT_OF_TIME
            else:
                reply["memory"] = state.memory_used
            return reply


def _to_json(value: object) -> bytes:
    return _encode(value).encode()


def _may_wait(values: list[object]) -> bool:
    """Return True if all are short."""
    return all(
        len(value) <= MAX_KEPT_TEXT if isinstance(value, str) else not isinstance(value, (list, dict))
        for value in values
    )


def _message(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    text = first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
    return text[:_MAX_MESSAGE]


class _HostLink:
    """The functions that Lua states call. It has no references to states, which would never be freed."""

    def __init__(self, lupa: _Lupa) -> None:
        self._type_of = lupa.lua_type
        self._problem: bytes | None = None
        self._known: dict[str, bytes] = {}
        self._reads = 0
        self._writes: list[list[object]] = []
        self.ask: Callable[[bytes], bytes] = bytes

    def begin(self, ask: Callable[[bytes], bytes], variables: dict[str, str]) -> None:
        """Set how the host is asked from now on, and variables as they are now."""
        self.ask = ask
        self._known = {name: value.encode() for name, value in variables.items()}
        self._reads, self._writes = 0, []

    def with_variables(self, message: dict[str, Any]) -> dict[str, Any]:
        """Add the writes that wait to a message, and how many reads needed none."""
        if self._writes:
            message["writes"], self._writes = self._writes, []
        if self._reads:
            message["reads"], self._reads = self._reads, 0
        return message

    def call(self, name: bytes, *arguments: object) -> object:
        """Call a function of the host. No Python error may reach the script."""
        try:
            values = [self.read(each) for each in arguments]
        except _UnreadableError as error:
            self._problem = str(error).encode()
            return None
        function = name.decode()
        variable = values[1] if function in (READ, WRITE) and len(values) > 1 else None
        if not isinstance(variable, str):
            variable = None
            self._known.clear()  # the host may change any of them
        elif function == READ and variable in self._known:
            self._problem = None
            self._reads += 1
            return self._known[variable]
        elif function == WRITE:
            self._known.pop(variable, None)
            if len(self._writes) < MAX_WAITING and _may_wait(values):
                self._problem = None
                self._writes.append(values)
                return None
        answer = self._answer(self.with_variables({"call": function, "arguments": values}))
        problem = answer.get("problem")
        self._problem = _DENIED if answer.get("denied") else None if problem is None else problem.encode()
        value = answer.get("value")
        if not isinstance(value, str):
            return value
        text = value.encode()
        if function == READ and variable is not None and len(text) <= MAX_KEPT_TEXT and len(self._known) < MAX_KNOWN:
            self._known[variable] = text
        return text

    def state(self) -> bytes | None:
        """Return the error of the last call."""
        return self._problem

    def now(self) -> int:
        """Return the seconds of the clock."""
        return int(self._answer({"wanted": "now"}).get("value") or 0)

    def utc_offset(self) -> int:
        """Return the seconds that local time is ahead."""
        return int(self._answer({"wanted": "utc_offset"}).get("value") or 0)

    def draw(self) -> float:
        """Return a random number."""
        return float(self._answer({"wanted": "draw"}).get("value") or 0)

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        return marshal.loads(self.ask(_to_json(question)))  # noqa: S302  # from our own process

    def read(self, value: object) -> object:
        """Convert a Lua value to JSON; functions and other values become None."""
        return self._read(value, 0, [MAX_TABLE_ITEMS])

    def _read(self, value: object, depth: int, left: list[int]) -> object:
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if value is None or isinstance(value, (bool, float)):
            return value
        if isinstance(value, int):
            return value if abs(value) <= _MAX_SAFE_INTEGER else float(value)  # JavaScript has only doubles
        if self._type_of(value) != "table":
            return None
        if depth >= MAX_TABLE_DEPTH:
            raise _UnreadableError("a table is nested too deeply")
        return self._read_table(value, depth, left)  # pyright: ignore[reportArgumentType]  # lupa has no types

    def _read_table(self, table: _Table, depth: int, left: list[int]) -> object:
        found: dict[object, object] = {}
        for key, item in table.items():
            left[0] -= 1
            if left[0] < 0:
                raise _UnreadableError("a table is too large")
            if isinstance(key, bytes):
                key = key.decode("utf-8", "replace")
            elif not isinstance(key, (bool, int, float)):  # converting it to text could call code of the script
                raise _UnreadableError(f"a table has a {self._type_of(key)} for a key")
            found[key] = self._read(item, depth + 1, left)
        if found and all(index in found for index in range(1, len(found) + 1)):
            return [found[index] for index in range(1, len(found) + 1)]
        return {str(key): item for key, item in found.items()}


def _deny(target: object, name: object, setting: object) -> object:
    """Deny access to attributes of Python objects, in case a script ever gets one."""
    raise AttributeError("access denied")


class _LuaState:
    """A Lua state with the sandbox in place; scripts only see Lua functions around those of the link.

    lupa works on a state outside of protected calls: an error there, even out of memory, ends the process. So a state
    is only entered while it has enough memory, and leaves some free (``budget.lua``); scripts never see the real table
    of globals, which lupa reads.
    """

    def __init__(self, lupa: _Lupa, link: _HostLink, request: dict[str, Any]) -> None:
        self._errors = (lupa.LuaError, MemoryError)
        self._link = link
        self._memory: int = request["memory"]
        self._runtime = lupa.LuaRuntime(
            encoding=None,
            attribute_filter=_deny,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=False,
            max_memory=self._memory + request["headroom"],
        )
        sources: dict[str, bytes] = {name: text.encode() for name, text in request["sources"].items()}
        run = self._runtime.execute
        budget = run(sources["budget"], request["hook_interval"], self._memory)
        json_module = run(sources["json"])
        share = self._memory // _TEXT_SHARE
        globals_table, run_script = run(
            sources["libraries"], budget, link.now, link.utc_offset, link.draw, share, request["load_cost"]
        )
        functions = request["functions"].encode()
        handle, listen = run(
            sources["api"], budget, globals_table, json_module, functions, link.call, link.state, _DENIED
        )
        self._begin, self._is_spent = budget[b"begin"], budget[b"is_spent"]
        self._entries: dict[str, Callable[..., object]] = {"script": run_script, "handle": handle, "listen": listen}
        run(sources["patterns"], request["quick_search"])  # last: what is ours does not need it

    def run(self, request: dict[str, Any]) -> object:
        """Run something with a fresh budget."""
        if not self.has_room:
            raise MemoryError
        self._begin(request["instructions"], request["seconds"])
        texts = [text.encode() for text in request["texts"]]
        return self._link.read(self._entries[request["entry"]](*texts))

    @property
    def memory_used(self) -> int:
        """How many bytes the state has."""
        return self._runtime.get_memory_used() or 0

    @property
    def has_room(self) -> bool:
        """True if there is enough memory to continue."""
        return self.memory_used <= self._memory

    @property
    def is_spent(self) -> bool:
        """True if the script was stopped. After that, no Lua function runs to its end, not even ours."""
        try:
            return bool(self._is_spent())
        except self._errors:
            return True
