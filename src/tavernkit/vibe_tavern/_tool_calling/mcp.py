"""Tools of MCP servers (extra ``mcp``)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from tavernkit._arguments import require
from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, is_sequence, thaw_object
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._tool_calling.registry import ToolDefinition
from tavernkit.vibe_tavern.errors import ToolArgumentError

MCP_TOOL_ERROR: Final = "MCP_TOOL_ERROR"
MAX_TOOLS: Final = 1000
"""The maximum number of tools from one server."""

MAX_PAGES: Final = 1000
"""The maximum number of pages of a server's list, which may be empty."""

_NOT_NAME = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 128


class McpSession(Protocol):
    """A connected MCP client, such as ``mcp.Client``."""

    async def list_tools(self, *, cursor: str | None = None) -> Any:
        """List the server's tools, a page at a time."""
        ...

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool."""
        ...


class McpToolset:
    """The tools of a connected server, with the executor that calls them.

    Names are made valid for providers (letters, digits, ``_`` and ``-``), with ``prefix`` before them.

    Args:
        session: The connection to the server.
        tools: The server's list of tools.
        prefix: Put before the name of each tool.

    Raises:
        ConfigError: Two tools have the same name.
    """

    def __init__(self, session: McpSession, tools: Sequence[Mapping[str, object]], *, prefix: str = "") -> None:
        self._session = session
        self._names: dict[str, str] = {}
        definitions: list[ToolDefinition] = []
        for tool in tools[:MAX_TOOLS]:
            original = str(tool.get("name") or "")
            name = exposed_name(original, prefix)
            if name in self._names:
                raise ConfigError(f"two MCP tools are called {name!r}: pass a prefix", code="DUPLICATE_TOOL")
            self._names[name] = original
            schema = tool.get("inputSchema")
            definitions.append(
                ToolDefinition(
                    name=name,
                    description=str(tool.get("description") or tool.get("title") or ""),
                    parameters=schema if is_mapping(schema) else None,
                )
            )
        self.definitions = tuple(definitions)

    @classmethod
    async def load(cls, session: McpSession, *, prefix: str = "") -> McpToolset:
        """List a server's tools.

        Args:
            session: The connection to the server.
            prefix: Put before the name of each tool.
        """
        tools: list[Mapping[str, object]] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = _dump(await session.list_tools(cursor=cursor))
            listed = page.get("tools")
            tools += [tool for tool in listed if is_mapping(tool)] if is_sequence(listed) else []
            following = page.get("nextCursor")
            if not isinstance(following, str) or not following or len(tools) >= MAX_TOOLS:
                break
            cursor = following
        return cls(session, tools, prefix=prefix)

    async def execute(self, name: str, args: JsonObject) -> object:
        """Call a tool: the executor of a tool loop.

        Args:
            name: The tool's name.
            args: Its arguments.

        Raises:
            ToolArgumentError: There is no such tool.
        """
        original = self._names.get(name)
        if original is None:
            raise ToolArgumentError(f"No such tool: {name}")
        return _envelope(_dump(await self._session.call_tool(original, args)))


@asynccontextmanager
async def connect_mcp(server: object, *, prefix: str = "", **options: Any) -> AsyncGenerator[McpToolset]:
    """Connect to an MCP server inside the ``async with`` block.

    ``server`` is the URL of a server, ``mcp.StdioServerParameters`` of one to start, or anything else that
    ``mcp.Client`` accepts.

    Args:
        server: The server.
        prefix: Put before the name of each tool.
        options: Options of ``mcp.Client``.

    Raises:
        ConfigError: The extra ``mcp`` is not installed.
    """
    try:
        from mcp import Client, StdioServerParameters
    except ImportError as error:
        raise ConfigError("MCP servers need the extra: pip install 'tavernkit[mcp]'", code="EXTRA_MISSING") from error
    if not (
        isinstance(server, (str, StdioServerParameters)) or hasattr(server, "__aenter__") or hasattr(server, "run")
    ):
        require("server", server, str, "a URL, mcp.StdioServerParameters, or what else mcp.Client takes")
    async with Client(server, **options) as client:  # pyright: ignore[reportArgumentType]  # checked by the client
        yield await McpToolset.load(client, prefix=prefix)


def exposed_name(name: str, prefix: str = "") -> str:
    """Return the name under which the model sees a server's tool."""
    return _NOT_NAME.sub("_", f"{prefix}_{name}" if prefix else name)[:_MAX_NAME]


def _envelope(result: JsonObject) -> JsonObject:
    blocks = result.get("content")
    texts: list[str] = []
    others: list[str] = []
    for block in blocks if is_list(blocks) else []:
        if is_object(block) and isinstance(block.get("text"), str):
            texts.append(str(block["text"]))
        elif is_object(block):
            others.append(str(block.get("type")))
    text = "\n".join(texts)
    structured = result.get("structuredContent")
    warnings: list[Json] = [f"content of type {kind} was left out" for kind in others]
    if result.get("isError"):
        error: JsonObject = {"code": MCP_TOOL_ERROR, "message": text}
        return {"ok": False, "data": {}, "warnings": warnings, "errors": [error]}
    data: JsonObject = structured if is_object(structured) else {"text": text}
    return {"ok": True, "data": data, "warnings": warnings, "errors": []}


def _dump(value: Any) -> JsonObject:
    """Return a result of the SDK as JSON, with the protocol's own names."""
    if is_mapping(value):
        return thaw_object(value)
    dumped: object = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped if is_object(dumped) else {}
