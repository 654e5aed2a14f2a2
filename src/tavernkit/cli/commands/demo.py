"""``tavernkit demo``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject

if TYPE_CHECKING:
    from tavernkit.prompt._plan import Plan
    from tavernkit.report import Overview

MESSAGE = "Who lit the lamp again, with the Grey Fleet so close?"
SMALL_CONTEXT, SMALL_REPLY = 1000, 400
"""A small context, to show what is left out."""

LOG = {"tuesday": "Dark for one hour. Six masts west of Hern, no lights.", "friday": "Lamp steady. Seven masts."}
"""What the demo's tool knows."""


ASKED = (
    "I bar the door. {{setvar::door::barred}}Who lit the lamp?",
    "The door is {{getvar::door}}. And the Grey Fleet?",
)
"""What Ann says in the demo's conversation. The second line depends on the state left by the first."""

ANSWERED = ('*She looks up.* "It lit itself."', '*She wipes the spyglass.* "Seven. I had counted six."')

LOOKED_UP = "Aria has counted six of them."
"""A sentence of the prompt that the demo looks up."""


def demo(
    files: Annotated[
        Path | None,
        typer.Option(
            "--files", metavar="DIR", help="Copy the example's files to this folder instead.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the demo shows as JSON.")] = False,
) -> None:
    r"""Show what TavernKit does, on an example that comes with it. Needs no key and no network.

    \b
    tavernkit demo
    tavernkit demo --files .
    tavernkit demo --json
    """
    from tavernkit.cli.terminal import show_report
    from tavernkit.report import overview

    if files is not None:
        _copy_files(files, as_json=as_json)
        return
    silly_tavern, tight, risu_ai = silly_tavern_plan(), silly_tavern_plan(small=True), risu_ai_plan()
    turn, talk = tool_turn(silly_tavern), two_turns()
    if as_json:
        show_report(
            {
                "silly_tavern": overview(silly_tavern).to_dict(),
                "small_context": overview(tight).to_dict(),
                "risu_ai": overview(risu_ai).to_dict(),
                "tool_turn": turn,
                "conversation": dataclasses.asdict(talk),
            }
        )
        return
    _present(overview(silly_tavern), overview(tight), overview(risu_ai), turn, talk)


def _copy_files(folder: Path, *, as_json: bool) -> None:
    from tavernkit.cli.files import check_free
    from tavernkit.cli.terminal import show, show_report
    from tavernkit.examples import NAMES, example_path

    targets = [folder / name for name in NAMES]
    for target in targets:
        check_free(target)
    folder.mkdir(parents=True, exist_ok=True)
    for target in targets:
        target.write_bytes(example_path(target.name).read_bytes())
    if as_json:
        show_report({"files": [str(target) for target in targets]})
    else:
        show(*(str(target) for target in targets))


def silly_tavern_plan(*, small: bool = False) -> Plan:
    """Build the example as SillyTavern would send it."""
    from tavernkit import silly_tavern as st
    from tavernkit.cards import User, load
    from tavernkit.examples import example_path

    preset = st.Preset.load(example_path("preset.json"))
    if small:
        preset = preset.replace(openai_max_context=SMALL_CONTEXT, openai_max_tokens=SMALL_REPLY)
    return st.build(
        character=load(example_path("aria.json")).character,
        user=User(name="Ann"),
        preset=preset,
        books=[st.WorldBook.load(example_path("tidewatch.json"))],
        history=st.ChatFile.load(example_path("chat.jsonl")),
        message=MESSAGE,
        seed=1,
    )


def risu_ai_plan() -> Plan:
    """Build the example as RisuAI would send it, from the same files."""
    from pathlib import Path

    from tavernkit.cli.build_options import BuildOptions
    from tavernkit.cli.inputs import build_plan
    from tavernkit.cli.options import Platform
    from tavernkit.examples import example_path
    from tavernkit.risu_ai._files.chat_file import ChatFile

    (chat,) = ChatFile.load(example_path("chat.jsonl")).chats
    return build_plan(
        BuildOptions(
            platform=Platform.RISU_AI,
            card=Path(example_path("aria.json")),
            preset=str(example_path("preset.json")),
            book=[Path(example_path("tidewatch.json"))],
            chat=str(example_path("chat.jsonl")),
            message=MESSAGE,
            seed=1,
        ),
        history=dataclasses.replace(chat, messages=chat.messages[1:]),  # RisuAI adds the greeting itself
    )


def tool_turn(plan: Plan) -> JsonObject:
    """Run a turn in which the model calls a tool; the model is scripted, the loop is real."""
    import asyncio

    from tavernkit.testing import ScriptedModel, answer, calls, tool_call
    from tavernkit.vibe_tavern._prompt_runner import PromptRunner
    from tavernkit.vibe_tavern._runner_config import RunnerConfig
    from tavernkit.vibe_tavern._tool_calling.loop import ToolLoopRunner

    model = ScriptedModel(
        calls(tool_call("read_log", {"night": "tuesday"})),
        answer('*She reads the line twice.* "Six, on Tuesday. You said seven." *The page is still damp.*'),
    )
    config = RunnerConfig.build(
        provider="openai", model="scripted-model", context={"tool_calling": {"tool_use_mode": "enforced"}}
    )
    definition = {
        "name": "read_log",
        "description": "Read what the lighthouse log says about a night.",
        "parameters": {"type": "object", "properties": {"night": {"type": "string"}}, "required": ["night"]},
    }

    def execute(name: str, args: JsonObject) -> JsonObject:
        return {"entry": LOG.get(str(args.get("night")).lower(), "Nothing was written.")}

    runner = ToolLoopRunner(PromptRunner(model), config, tools=[definition], executor=execute)
    result = asyncio.run(runner.run(prompt=plan))
    return {
        "requests": len(model.requests),
        "call": {"name": "read_log", "arguments": {"night": "tuesday"}},
        "result": LOG["tuesday"],
        "reply": result.text,
    }


@dataclass(frozen=True)
class TwoTurns:
    """The demo's conversation."""

    lines: Sequence[tuple[str, str]]
    """Who said what."""
    variables: dict[str, str]
    """The chat's variables after the two turns."""
    message: int
    """The message of the last prompt that contains the sentence, and its source."""
    source: str
    offset: int
    cached: int
    """Cached and total tokens of the last prompt, and what broke the cache."""
    tokens: int
    lost: int
    broken_by: str


def two_turns() -> TwoTurns:
    """Run two turns, trace a sentence of the last prompt, and predict the prompt cache."""
    from tavernkit.cache import PromptCache
    from tavernkit.conversation import Conversation
    from tavernkit.examples import example_path
    from tavernkit.silly_tavern import Chat
    from tavernkit.testing import ScriptedModel

    chat = Conversation.open(
        card=example_path("aria.json"),
        books=[example_path("tidewatch.json")],
        preset=example_path("preset.json"),
        user="Ann",
        model=ScriptedModel(*ANSWERED),
    )
    chat.cache = cache = PromptCache("llama_cpp")
    with chat.blocking() as talking:
        _, last = [talking.send(line) for line in ASKED]
    turn = cache.report.turns[-1]
    assert isinstance(chat.chat, Chat)
    assert last.plan is not None
    assert turn.broken is not None
    (place,) = last.plan.where(LOOKED_UP)
    span = place.spans[-1]
    assert span.source is not None
    return TwoTurns(
        lines=[(str(line["name"]), str(line["mes"])) for line in chat.lines[1:]],
        variables={name: str(value) for name, value in chat.chat.variables.to_dict()["local"].items()},
        message=place.message,
        source=f"{span.source.name}.json {span.source.pointer}",
        offset=span.offset + place.start - span.start,
        cached=turn.cached_tokens,
        tokens=turn.tokens,
        lost=turn.broken.lost_tokens,
        broken_by=turn.broken.reason,
    )


def _present(silly_tavern: Overview, tight: Overview, risu_ai: Overview, turn: JsonObject, talk: TwoTurns) -> None:
    from rich.panel import Panel
    from rich.rule import Rule
    from rich.text import Text

    from tavernkit.cli import views
    from tavernkit.cli.terminal import show

    def chapter(title: str, line: str) -> None:
        show("", Rule(Text(title, style="bold"), align="left", style="dim"), Text(line, style="dim"), "")

    show(
        Panel(
            Text.assemble(
                ("TavernKit", "bold"),
                " builds the prompt that SillyTavern or RisuAI would send, from their own files, and says why.\n",
                ("Aria, keeper of the Tidewatch light: a card, a world book of 8 entries, a preset, a chat. ", ""),
                ("Ann says: ", "dim"),
                (MESSAGE, "italic"),
            ),
            border_style="dim",
        )
    )
    chapter("1  What SillyTavern would send", "Each block in the colour of its source, with its cost and the reason.")
    show(views.blocks_view(silly_tavern), "", views.token_bar(silly_tavern))
    chapter("2  Why each lore entry fired, or did not", "tavernkit explain … --lore")
    show(views.lore_table(silly_tavern.lore))
    chapter(
        f"3  The same with {SMALL_CONTEXT} tokens of context",
        "What does not fit is left out as SillyTavern leaves it out. Nothing is dropped silently.",
    )
    show(views.token_bar(tight), "", views.left_out_table(tight) or "Nothing was left out.")
    chapter("4  What RisuAI would send, from the same files", "Another order, other rules, the same explanation.")
    show(views.plan_table(risu_ai), "", views.token_bar(risu_ai))
    chapter("5  A turn with a tool", "The model is scripted; the loop, its checks and limits are the real ones.")
    show(
        Text.assemble(("model  ", "bold"), 'read_log(night="tuesday")'),
        Text.assemble(("tool   ", "bold"), (str(turn["result"]), "italic")),
        Text.assemble(("model  ", "bold"), str(turn["reply"])),
        Text(f"{turn['requests']} requests", style="dim"),
    )
    chapter(
        "6  A conversation", "Variables, timed lore and swipes are kept from turn to turn, in SillyTavern's format."
    )
    show(*(Text.assemble((f"{name:<6} ", "bold"), text) for name, text in talk.lines))
    variables = ", ".join(f"{name} = {value}" for name, value in talk.variables.items())
    show(Text(f"Set in the first turn and read in the second: {variables}", style="dim"))
    chapter("7  Where a sentence of its prompt came from", "tavernkit explain … --where WORDS; in Studio, click it.")
    show(Text.assemble((f"“{LOOKED_UP}”", "italic"), f" is in message {talk.message}."))
    show(f"It comes from {talk.source}, starting at character {talk.offset}.")
    chapter("8  What a prompt cache keeps of it", "tavernkit cache CARD --chat FILE")
    show(f"{talk.cached} of {talk.tokens} tokens are cached from the previous prompt.")
    show(f"What broke the cache: {talk.broken_by}")
    show(f"Without that, {talk.lost} more tokens would be cached.")
    show("", Rule(style="dim"), *_next_steps())


def _next_steps() -> list[str]:
    return [
        "Now with your own files:",
        "  tavernkit studio CARD                        edit it in the browser and see what the model sees",
        "  tavernkit build CARD --message TEXT          the prompt for a card",
        "  tavernkit explain CARD --html report.html    the same as a page to click through",
        "  tavernkit lint CARD                          find mistakes and surprises",
    ]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)
