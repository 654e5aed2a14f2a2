"""Scenarios for directives: one envelope with the right directive in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject
from tavernkit.vibe_tavern._directives.config import merge
from tavernkit.vibe_tavern._directives.definitions import DirectiveDefinition, DirectiveRegistry
from tavernkit.vibe_tavern._directives.patch_ops import normalize_patch_ops
from tavernkit.vibe_tavern._directives.runner import DirectivesResult, DirectivesRunner
from tavernkit.vibe_tavern._evals.lab import Lab, ScenarioOutcome
from tavernkit.vibe_tavern._options import is_blank

MAX_TOKENS: Final = 600
SYSTEM: Final = "You are the assistant of an application. What the application should do goes into directives."

REGISTRY: Final = DirectiveRegistry(
    [
        DirectiveDefinition("ui.show_form", "payload: {form_id}", ("show_form", "form", "ui.form")),
        DirectiveDefinition("ui.toast", "payload: {message}", ("toast", "show_toast", "ui.notify")),
        DirectiveDefinition("ui.patch", "payload: {ops: [{op, path, value}]}, paths below /draft/", ("patch",)),
        DirectiveDefinition("ui.request_upload", "payload: {purpose}", ("request_upload", "upload")),
    ]
)

_REQUIRED: Final = {"ui.show_form": "form_id", "ui.toast": "message", "ui.request_upload": "purpose"}

_WORKAROUNDS: Final[Mapping[str, Mapping[str, object]]] = {
    "prompt_only": {"modes": ["prompt_only"]},
    "json_object_first": {"modes": ["json_object", "prompt_only"]},
    "no_json_schema": {"modes": ["json_object", "prompt_only"]},
    "no_prompt_only": {"modes": ["json_schema", "json_object"]},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectiveScenario:
    """A request that calls for one directive."""

    id: str
    prompt: str
    wanted: str
    check: Callable[[JsonObject], list[str]]
    tags: tuple[str, ...] = ("default",)
    suite: str = "directives"

    async def run(self, lab: Lab) -> ScenarioOutcome:
        """Ask for the envelope; in production, the model is also told what is wrong with a valid one."""
        options: dict[str, object] = {"repair_retry_count": 0} if lab.strategy == "raw" else {}
        if lab.strategy == "production":
            options = merge(options, *(_WORKAROUNDS.get(each) for each in lab.model.workarounds))
        runner = DirectivesRunner(lab.runner, lab.config(directives=options))
        result = await runner.run(
            message=self.prompt,
            system=SYSTEM,
            llm_options={"max_tokens": MAX_TOKENS},
            dialect=lab.dialect,
            structured_output_options={"registry": REGISTRY, "payload_validator": _payload_problem},
            result_validator=self._problems if lab.strategy == "production" else None,
        )
        reasons = self._problems(result) if result.ok else [_last_problem(result)]
        attempts: list[Json] = [*result.attempts]
        details: JsonObject = {
            "mode": result.mode,
            "attempts": attempts,
            "attempts_count": len(attempts),
            "had_http_404": any(attempt.get("http_status") == 404 for attempt in result.attempts),
            "had_semantic_error": any(attempt.get("semantic_error") for attempt in result.attempts),
            "directives": [*result.directives],
        }
        return ScenarioOutcome(result.text, reasons, details)

    def _problems(self, result: DirectivesResult) -> list[str]:
        payloads = [each["payload"] for each in result.directives if each["type"] == self.wanted]
        found = [payload for payload in payloads if isinstance(payload, dict)]
        return self.check(found[0]) if found else [f"there is no directive {self.wanted}"]


def _payload_problem(kind: str, payload: JsonObject) -> object:
    if kind == "ui.patch":
        normal = normalize_patch_ops(payload.get("ops"))
        if not normal.ok:
            return normal.to_dict()
        payload["ops"] = [*normal.ops]
        return None
    field = _REQUIRED[kind]
    return f"MISSING_{field.upper()}" if is_blank(payload.get(field)) else None


def _field_is(field: str, value: str) -> Callable[[JsonObject], list[str]]:
    def check(payload: JsonObject) -> list[str]:
        return [] if payload.get(field) == value else [f"{field} is {payload.get(field)!r} and not {value!r}"]

    return check


def _sets_foo(payload: JsonObject) -> list[str]:
    wanted: JsonObject = {"op": "set", "path": "/draft/foo", "value": "bar"}
    ops = payload.get("ops")
    found = isinstance(ops, list) and any(isinstance(op, dict) and wanted.items() <= op.items() for op in ops)
    return [] if found else ["no operation sets /draft/foo to 'bar'"]


def _last_problem(result: DirectivesResult) -> str:
    last = result.attempts[-1] if result.attempts else {}
    for key in ("structured_output_error", "semantic_error"):
        problem = last.get(key)
        if isinstance(problem, dict):
            return f"no usable envelope: {problem.get('code')}"
    return f"no usable envelope: {last.get('message') or 'no attempt'}"


DIRECTIVE_SCENARIOS: Final = (
    DirectiveScenario(
        id="show_form",
        prompt="Show the form with the form_id character_form.",
        wanted="ui.show_form",
        check=_field_is("form_id", "character_form"),
    ),
    DirectiveScenario(
        id="toast",
        prompt="Show a toast with exactly this message: Saved.",
        wanted="ui.toast",
        check=_field_is("message", "Saved."),
    ),
    DirectiveScenario(
        id="patch_draft",
        prompt="Set /draft/foo to the string bar with a patch.",
        wanted="ui.patch",
        check=_sets_foo,
    ),
    DirectiveScenario(
        id="request_upload",
        prompt="Ask for an upload with the purpose character_portrait.",
        wanted="ui.request_upload",
        check=_field_is("purpose", "character_portrait"),
    ),
)
