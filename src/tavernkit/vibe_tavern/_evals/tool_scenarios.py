"""Scenarios for tool calling: a workspace to read and change, with difficulties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._text import json_pointer
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import JsonObject, is_list, is_object
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._evals.lab import Lab, ScenarioOutcome
from tavernkit.vibe_tavern._tool_calling.config import merge
from tavernkit.vibe_tavern._tool_calling.loop import ToolLoopRunner
from tavernkit.vibe_tavern._tool_calling.registry import ToolDefinition
from tavernkit.vibe_tavern._tool_calling.run import ToolLoopResult
from tavernkit.vibe_tavern.errors import ToolArgumentError

WORKSPACE_ID = "ws_1"
PATCHABLE_PATHS = ("/draft/foo",)
PADDING_BYTES = 20_000
"""Extra size of the result of ``state_get`` in scenarios with large results."""


@dataclass()
class Workspace:
    """Facts, a draft, locks and interface state, with an etag that counts changes of the draft."""

    id: str = WORKSPACE_ID
    facts: JsonObject = field(default_factory=lambda: {"name": "Seraphina"})
    draft: JsonObject = field(default_factory=lambda: {"foo": ""})
    locks: JsonObject = field(default_factory=dict)
    ui_state: JsonObject = field(default_factory=dict)
    draft_etag: int = 1
    padding: int = 0

    def snapshot(self) -> JsonObject:
        """Everything a model may see."""
        seen: JsonObject = {
            "workspace_id": self.id,
            "facts": self.facts,
            "draft": self.draft,
            "locks": self.locks,
            "ui_state": self.ui_state,
            "draft_etag": str(self.draft_etag),
        }
        return seen | ({"padding": "x" * self.padding} if self.padding else {})

    def execute(self, name: str, args: JsonObject) -> object:
        """Run a tool on the workspace."""
        given = args.get("workspace_id", self.id)
        if not isinstance(given, str):
            raise ToolArgumentError("workspace_id must be a string")
        if given not in ("", self.id):
            raise ToolArgumentError(f"there is no workspace {given!r}; leave workspace_id out to use the current one")
        if name == "state_get":
            return self.snapshot()
        if name == "state_patch":
            return self._patch(args.get("ops"))
        raise ToolArgumentError(f"No such tool: {name}")

    def _patch(self, ops: object) -> JsonObject:
        """Apply all operations or none."""
        if not is_list(ops) or not ops:
            raise ToolArgumentError("ops must be a list of {op, path, value}")
        document: object = {"draft": self.draft}
        for index, op in enumerate(ops):
            if not is_object(op) or op.get("op") != "set" or "value" not in op:
                raise ToolArgumentError(f"ops[{index}] must be an object with op 'set', path and value")
            if op.get("path") not in PATCHABLE_PATHS:
                raise ToolArgumentError(f"ops[{index}].path must be one of {', '.join(PATCHABLE_PATHS)}")
            try:
                document = json_pointer.set_value(document, str(op["path"]), op["value"])
            except ConfigError as error:
                raise ToolArgumentError(str(error)) from error
        assert is_object(document)
        draft = document["draft"]
        assert is_object(draft)
        self.draft, self.draft_etag = draft, self.draft_etag + 1
        return {"draft_etag": str(self.draft_etag), "applied": len(ops)}


def workspace_tools() -> tuple[ToolDefinition, ...]:
    """The tools of the workspace; ``facts_commit`` is hidden from the model."""
    workspace_id: JsonObject = {"type": "string", "description": "Leave out for the current workspace."}
    op: JsonObject = {
        "type": "object",
        "required": ["op", "path", "value"],
        "properties": {"op": {"type": "string", "enum": ["set"]}, "path": {"type": "string"}, "value": {}},
    }
    patch: JsonObject = {
        "type": "object",
        "required": ["ops"],
        "properties": {"workspace_id": workspace_id, "ops": {"type": "array", "items": op}},
    }
    return (
        ToolDefinition(
            "state_get", "Read the workspace.", {"type": "object", "properties": {"workspace_id": workspace_id}}
        ),
        ToolDefinition("state_patch", "Change the draft. Only op 'set' on path /draft/foo is allowed.", patch),
        ToolDefinition("facts_commit", "Write facts for good.", {"type": "object"}, exposed_to_model=False),
    )


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
