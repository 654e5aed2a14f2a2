"""Tools of MCP servers: one in this process, and one that is started."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.server import mcpserver

from tavernkit.errors import ConfigError
from tavernkit.testing import calls, tool_call
from tavernkit.vibe_tavern import CombinedToolset, FunctionToolset, McpToolset, ToolLoopRunner, connect_mcp
from tavernkit.vibe_tavern._tool_calling.mcp import exposed_name
from tavernkit.vibe_tavern.errors import ToolArgumentError
from tests.vibe_tavern.support import config, loose, scripted, sent


def make_server() -> Any:
    server = mcpserver.MCPServer("tavern")

    @server.tool(name="dice.roll", description="Roll dice.")
    def roll(sides: int) -> dict[str, int]:
        return {"rolled": sides}

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("no dice")

    @server.tool(structured_output=False)
    def say(text: str) -> str:
        """Say it."""
        return text

    return server


async def test_a_servers_tools_are_listed_and_run() -> None:
    async with connect_mcp(make_server(), prefix="t") as tools:
        assert [each.name for each in tools.definitions] == ["t_dice_roll", "t_fail", "t_say"]
        assert loose(tools.definitions[0].schema)["required"] == ["sides"]
        runner, model = scripted(
            calls(tool_call("t_dice_roll", {"sides": 6})),
            calls(tool_call("t_fail")),
            calls(tool_call("t_say", {"text": "hi"})),
            "done",
        )
        result = await ToolLoopRunner(runner, config(), tools=tools).run("roll")
    outcomes = [json.loads(message.content) for message in result.history if message.role == "tool"]
    assert outcomes[0]["data"] == {"rolled": 6}
    assert (outcomes[1]["ok"], outcomes[1]["errors"][0]["code"]) == (False, "MCP_TOOL_ERROR")
    assert outcomes[2]["data"] == {"text": "hi"}
    assert sent(model)["tools"][0]["function"]["description"] == "Roll dice."


async def test_a_list_without_end_is_read_up_to_a_limit() -> None:
    class Endless:
        pages = 0

        async def list_tools(self, *, cursor: str | None = None) -> Any:
            self.pages += 1
            return {"tools": [], "nextCursor": f"after {cursor}"[:20]}

        async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
            raise NotImplementedError

    session = Endless()
    assert (await McpToolset.load(session)).definitions == ()
    assert session.pages == 1000


async def test_server_and_functions_combine() -> None:
    def ping() -> str:
        """Answer."""
        return "pong"

    async with connect_mcp(make_server()) as tools:
        combined = CombinedToolset(FunctionToolset([ping]), tools)
        runner, _ = scripted(calls(tool_call("say", {"text": "x"})), calls(tool_call("ping")), "done")
        result = await ToolLoopRunner(runner, config(), tools=combined).run("go")
    outcomes = [json.loads(message.content)["data"] for message in result.history if message.role == "tool"]
    assert outcomes == [{"text": "x"}, {"value": "pong"}]


async def test_a_server_can_be_started(tmp_path: Path) -> None:
    import mcp

    script = tmp_path / "server.py"
    script.write_text(
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('started')\n"
        "@server.tool()\n"
        "def double(n: int) -> int:\n"
        "    '''Double it.'''\n"
        "    return 2 * n\n"
        "server.run()\n"
    )
    parameters = mcp.StdioServerParameters(command=sys.executable, args=[str(script)])
    async with connect_mcp(parameters) as tools:
        assert loose(await tools.execute("double", {"n": 4}))["data"] == {"result": 8}


class Pages:
    """A session that lists its tools in two pages and answers with an image."""

    async def list_tools(self, *, cursor: str | None = None) -> Any:
        if cursor is None:
            return {"tools": [{"name": "a", "inputSchema": {"type": "object"}}], "nextCursor": "2"}
        return {"tools": [{"name": "b", "title": "B"}]}

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        return {"content": [{"type": "image", "data": "x"}, {"type": "text", "text": name}]}


async def test_pages_are_followed_and_other_content_is_noted() -> None:
    tools = await McpToolset.load(Pages())
    assert [(each.name, each.description) for each in tools.definitions] == [("a", ""), ("b", "B")]
    result = loose(await tools.execute("b", {}))
    assert result["data"] == {"text": "b"}
    assert result["warnings"] == ["content of type image was left out"]
    with pytest.raises(ToolArgumentError):
        await tools.execute("c", {})


def test_names_are_made_fit_and_must_stay_different() -> None:
    assert exposed_name("a/b c.d", "p") == "p_a_b_c_d"
    with pytest.raises(ConfigError):
        McpToolset(Pages(), [{"name": "a.b"}, {"name": "a_b"}])
