"""The workspace of tool scenarios: facts, a draft and interface state."""

from __future__ import annotations

from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text import json_pointer
from tavernkit._values import JsonObject, is_list, is_object
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._tool_calling.registry import ToolDefinition
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
