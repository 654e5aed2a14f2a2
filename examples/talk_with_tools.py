"""Let a model look something up before it answers. Replace the scripted model by a real one, and it is an app."""

from __future__ import annotations

import asyncio

from tavernkit.testing import ScriptedModel, calls, tool_call
from tavernkit.vibe_tavern import FunctionToolset, PromptRunner, RunnerConfig, ToolLoopRunner

tools = FunctionToolset()


@tools.tool
def read_log(night: str) -> str:
    """Read what the lighthouse log says about a night.

    Args:
        night: The day of the week.
    """
    return {"tuesday": "Dark for one hour. Six masts, no lights."}.get(night, "Nothing was written.")


async def main() -> None:
    model = ScriptedModel(calls(tool_call("read_log", {"night": "tuesday"})), "Six, on Tuesday.")
    config = RunnerConfig.build(provider="openai", model="scripted-model")
    runner = ToolLoopRunner(PromptRunner(model), config, tools=tools, system="You are Aria, who keeps the light.")
    result = await runner.run("How many ships were there on Tuesday?", on_event=lambda event: print(event["type"]))
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
