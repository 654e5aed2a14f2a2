"""Calls from a prompt to a reply: a line with ``# wrong`` must be refused, every other line accepted."""

from __future__ import annotations

import tavernkit as tk
from tavernkit import silly_tavern as st
from tavernkit import vibe_tavern as vibe

card = tk.Character(name="Aria")
plan = st.build(character=card, message="Hi")
config = vibe.RunnerConfig.build(provider="openai", model="gpt-4o")

# Right calls of models and requests.
model: tk.Model = tk.model("openai:gpt-4o", base_url="http://localhost:8000", timeout=30)
scripted = tk.model("scripted", replies=["Hello."])
request: tk.Request = plan.request("anthropic", model="claude", options={"temperature": 0.5})
careful = tk.fallback(tk.with_retries(model), scripted)

# Wrong calls of models and requests.
tk.model("openai:gpt-4o", base_uri="http://localhost:8000")  # wrong
tk.model("scripted", replies="Hello.", timeout="soon")  # wrong
plan.request(dialects="openai")  # wrong
plan.request(options=["temperature"])  # wrong
tk.Request(message=[{"role": "user", "content": "Hi"}])  # wrong
tk.with_retries("openai:gpt-4o")  # wrong

# Right calls of conversations.
chat = tk.Conversation.open("aria.jsonl", card=card, books=["tidewatch.json"], user="Ann", model=model)
risu = tk.Conversation.open(card="aria.charx", platform="risu_ai", inputs={"toggles": {"mood": "1"}})
inner: tk.Plan = chat.preview("Hi")
text: str = chat.blocking().send("Hi").text

# Wrong calls of conversations.
tk.Conversation.open("aria.jsonl", charcter="aria.png")  # wrong
tk.Conversation.open(card=card, platform="sillytavern")  # wrong
tk.Conversation.open(card=card, model="openai:gpt-4o")  # wrong
tk.Conversation.open(card=card, inputs={"toggels": {}})  # wrong
chat.preview(message="Hi")  # wrong
chat.blocking().swipe("up")  # wrong

# Right calls of VibeTavern's builder.
vibe.build(character=card, message="Hi", system_text="Be brief.")
runner = vibe.PromptRunner(model)
ready: vibe.PromptRequest = runner.build_request(config, plan, llm_options={"temperature": 0})
tools = vibe.ToolLoopRunner(runner, config, tools=[], executor=None, system="Be brief.")
directives = vibe.DirectivesRunner(runner, config)

# Wrong calls of VibeTavern's builder and the runners.
vibe.build(character=card, system="Be brief.")  # wrong
vibe.PromptRunner("openai:gpt-4o")  # wrong
vibe.PromptRunner(config)  # wrong
runner.build_request(plan, config)  # wrong
runner.build_request(config, plan, options={"temperature": 0})  # wrong
vibe.ToolLoopRunner(runner, config, tool=[])  # wrong
vibe.ToolLoopRunner(config, runner)  # wrong
vibe.DirectivesRunner(runner, config, strict=True)  # wrong


async def run() -> None:
    """Right and wrong calls that are awaited."""
    reply: tk.Reply = await careful.send(request)
    print(reply.text, reply.usage.cached_tokens)
    async for piece in chat.stream("And who are you?"):
        print(piece.text, end="")
    turn = await chat.send("Where am I?", attachments=["map.png"])
    print(turn.text)
    await tools.run("Hi", prompt=plan, max_turns=3)
    await directives.run(prompt=request, llm_options={"temperature": 0})
    await runner.perform(ready)

    await model.send(plan)  # wrong
    await chat.send(text=5)  # wrong
    await chat.swipe("up")  # wrong
    await chat.edit("first", "Hi")  # wrong
    await tools.run("Hi", prompt="Hi")  # wrong
    await tools.run(message="Hi")  # wrong
    await directives.run("Hi")  # wrong
    await runner.perform(request)  # wrong
