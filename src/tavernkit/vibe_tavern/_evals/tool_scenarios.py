"""Scenarios for tool calling: a workspace to read and change, with difficulties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import JsonObject, is_list, is_object
from tavernkit.vibe_tavern._evals.lab import Lab, ScenarioOutcome
from tavernkit.vibe_tavern._evals.workspace import PADDING_BYTES, Workspace, workspace_tools
from tavernkit.vibe_tavern._tool_calling.config import merge
from tavernkit.vibe_tavern._tool_calling.loop import ToolLoopRunner
from tavernkit.vibe_tavern._tool_calling.run import ToolLoopResult

CLOSING: Final = "All done."
SYSTEM: Final = f"""\
You work on a workspace through tools.
* Read the workspace with state_get before you change it with state_patch.
* If a tool reports an error, correct your arguments and call it again.
* When the task is finished, answer with exactly this sentence: {CLOSING}"""

DEFAULTS: Final[Mapping[str, object]] = {
    "tool_use_mode": "enforced",
    "tool_failure_policy": "fatal",
    "tool_allowlist": ["state_get", "state_patch"],
}

Check = Callable[[Workspace, ToolLoopResult], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolScenario:
    """A task on the workspace."""

    id: str
    prompt: str
    check: Check
    tags: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    padding: int = 0
    closing: bool = True
    suite: str = "tools"

    async def run(self, lab: Lab) -> ScenarioOutcome:
        """Run the tool loop on a fresh workspace."""
        workspace = Workspace(padding=self.padding)
        config = lab.config(tool_calling=merge(DEFAULTS, lab.tool_calling, self.options))
        loop = ToolLoopRunner(
            lab.runner,
            config,
            tools=workspace_tools(),
            executor=workspace.execute,
            system=SYSTEM,
            dialect=lab.dialect,
        )
        result = await loop.run(self.prompt)
        reasons = self.check(workspace, result)
        if self.closing and lab.language is None and trim_blanks(result.text) != CLOSING:
            reasons.append(f"the answer is not {CLOSING!r}")
        details: JsonObject = {
            "trace": [*result.trace],
            "history": [message.to_serializable_dict() for message in result.history],
        }
        return ScenarioOutcome(result.text, reasons, details)


def _draft_is(value: str) -> Check:
    def check(workspace: Workspace, _: ToolLoopResult) -> list[str]:
        found = workspace.draft.get("foo")
        return [] if found == value else [f"draft.foo is {found!r} and not {value!r}"]

    return check


def _also_saw(code: str, then: Check) -> Check:
    def check(workspace: Workspace, result: ToolLoopResult) -> list[str]:
        seen = code in _error_codes(result)
        return then(workspace, result) + ([] if seen else [f"no tool call ended in {code}"])

    return check


def _error_codes(result: ToolLoopResult) -> list[object]:
    codes: list[object] = []
    for entry in result.trace:
        results = entry.get("tool_results")
        for each in results if is_list(results) else []:
            found = each.get("error_codes") if is_object(each) else None
            codes += found if is_list(found) else []
    return codes


def _two_calls_at_once(workspace: Workspace, result: ToolLoopResult) -> list[str]:
    counts = [len(calls) for entry in result.trace if is_list(calls := entry.get("tool_calls"))]
    missing = [] if max(counts, default=0) > 1 else ["no answer had two tool calls"]
    return _draft_is("bar")(workspace, result) + missing


def _short_enough(workspace: Workspace, _: ToolLoopResult) -> list[str]:
    found = workspace.draft.get("foo")
    return [] if isinstance(found, str) and found else ["draft.foo is still empty"]


def _says_something(_: Workspace, result: ToolLoopResult) -> list[str]:
    return [] if trim_blanks(result.text) else ["the answer is empty"]


TOOL_SCENARIOS: Final = (
    ToolScenario(
        id="happy_path",
        tags=("default", "simple"),
        prompt="Read workspace ws_1, then set /draft/foo to the string bar.",
        check=_draft_is("bar"),
    ),
    ToolScenario(
        id="missing_workspace_id",
        tags=("default",),
        prompt="Read the current workspace without giving an id, then set /draft/foo to the string bar.",
        check=_draft_is("bar"),
    ),
    ToolScenario(
        id="type_error_recovery",
        tags=("default",),
        prompt="First call state_get with workspace_id as the number 1. It will be refused: then do it right, and set "
        "/draft/foo to the string bar.",
        check=_draft_is("bar"),
    ),
    ToolScenario(
        id="long_arguments_guard",
        tags=("default", "extreme"),
        prompt="Set /draft/foo to a text of about 600 characters. If the arguments are refused as too large, use a "
        "text of at most 100 characters instead.",
        check=_short_enough,
        options={"max_tool_args_bytes": 300},
    ),
    ToolScenario(
        id="happy_path_parallel",
        tags=("extreme",),
        prompt="In one single answer call state_get and state_patch, the latter to set /draft/foo to the string bar.",
        check=_two_calls_at_once,
        options={"request_overrides": {"parallel_tool_calls": True}},
    ),
    ToolScenario(
        id="partial_success_failure",
        tags=("extreme",),
        prompt="In one single answer set /draft/foo to the string bar and also try to set /draft/secret to the string "
        "baz. The second will be refused: do not repeat it, but read the workspace once more.",
        check=_also_saw("ARGUMENT_ERROR", _draft_is("bar")),
        options={"request_overrides": {"parallel_tool_calls": True}, "tool_failure_policy": "tolerated"},
    ),
    ToolScenario(
        id="tool_output_truncation",
        tags=("extreme",),
        prompt="Read the workspace. Its content may be withheld because of its size: then go on without it.",
        check=_also_saw("TOOL_OUTPUT_TOO_LARGE", _says_something),
        options={"max_tool_output_bytes": 5000, "tool_use_mode": "relaxed", "tool_failure_policy": "tolerated"},
        padding=PADDING_BYTES,
    ),
    ToolScenario(
        id="chat_only",
        tags=("default", "simple", "control"),
        prompt="Say hello in one short sentence.",
        check=_says_something,
        options={"tool_use_mode": "disabled"},
        closing=False,
    ),
)
