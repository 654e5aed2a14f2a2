"""Scenarios that judge one answer: directives (the right one in an envelope), and the language policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._directives.config import merge
from tavernkit.vibe_tavern._directives.definitions import DirectiveDefinition, DirectiveRegistry
from tavernkit.vibe_tavern._directives.patch_ops import normalize_patch_ops
from tavernkit.vibe_tavern._directives.runner import DirectivesResult, DirectivesRunner
from tavernkit.vibe_tavern._evals.lab import Lab, ScenarioOutcome
from tavernkit.vibe_tavern._options import is_blank
from tavernkit.vibe_tavern._prompt_runner import PromptRequest

MAX_ENVELOPE_TOKENS: Final = 600
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
            llm_options={"max_tokens": MAX_ENVELOPE_TOKENS},
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
            "usage": result.usage.to_dict() if result.usage.reported else None,
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


Shape = Literal["ok", "drift", "unknown"]

_LANG_SPAN = re.compile(r"<lang\b[^>]*>.*?</lang>", re.DOTALL | re.IGNORECASE)
_VERBATIM = re.compile(r"```.*?```|`[^`]*`|\{\{.*?\}\}|\{%.*?%\}|https?://\S+|<[^>]*>", re.DOTALL)
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_HANGUL = re.compile(r"[\u1100-\u11ff\uac00-\ud7af]")
_LATIN_WORD = re.compile(r"[A-Za-z]{3,}")
_MANY_LATIN_WORDS: Final = 3
_MAX_CHARACTERS: Final = 10_000
"""How many characters of a text are checked."""


def language_shape(text: str, language: str, *, strict_latin: bool = False) -> Shape:
    """Judge a text by its scripts; spans marked as another language, code and links are left out.

    ``strict_latin`` counts three or more Latin words as drift if the language uses another script.
    """
    plain = _VERBATIM.sub(" ", _LANG_SPAN.sub(" ", text[:_MAX_CHARACTERS]))
    kana, han, hangul = (bool(script.search(plain)) for script in (_KANA, _HAN, _HANGUL))
    primary = language.replace("_", "-").partition("-")[0].lower()
    if primary == "en":
        return "ok" if _LATIN_WORD.search(plain) and not (kana or han or hangul) else "unknown"
    if primary not in ("ja", "zh", "yue", "ko"):
        return "unknown"
    if strict_latin and len(_LATIN_WORD.findall(plain)) >= _MANY_LATIN_WORDS:
        return "drift"
    foreign, own = {"ja": (hangul, kana), "ko": (kana, hangul)}.get(primary, (kana or hangul, han))
    if foreign:
        return "drift"
    return "ok" if own else "unknown"


MAX_ANSWER_TOKENS: Final = 350

VERBATIM_PARTS: Final = ("`npm run build`", "{{char}}", "https://example.com/docs")

_TAIWAN_WORDS: Final = ("\u8edf\u9ad4", "\u7db2\u8def", "\u6ed1\u9f20")
_MAINLAND_WORDS: Final = ("\u8f6f\u4ef6", "\u7f51\u7edc", "\u9f20\u6807")

Check = Callable[[str, str], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageScenario:
    """A question whose answer must be in the target language."""

    id: str
    prompt: str
    check: Check
    tags: tuple[str, ...] = ("default",)
    suite: str = "language"

    async def run(self, lab: Lab) -> ScenarioOutcome:
        """Ask with the language policy on."""
        if lab.language is None:
            raise ConfigError("a language scenario needs a language", code="LANGUAGE_REQUIRED")
        request = lab.runner.build_request(
            lab.config(), message=self.prompt, llm_options={"max_tokens": MAX_ANSWER_TOKENS}, dialect=lab.dialect
        )
        result = await lab.runner.perform(request)
        reasons = self.check(result.text, lab.language) if result.text else []
        details: JsonObject = {
            "injected_target_lang": injected_language(request),
            "finish_reason": result.finish_reason,
            "usage": result.usage,
        }
        return ScenarioOutcome(result.text, reasons, details)


def injected_language(request: PromptRequest) -> str | None:
    """Read back from a request which language it asks for."""
    for block in request.plan.blocks if request.plan is not None else ():
        language = block.metadata.get("target_lang")
        if block.slot == "language_policy" and isinstance(language, str):
            return language
    return None


def _keeps_verbatim(text: str, _: str) -> list[str]:
    return [f"{part} is missing" for part in VERBATIM_PARTS if part not in text]


def _uses_regional_words(text: str, language: str) -> list[str]:
    foreign = {"zh-CN": _TAIWAN_WORDS, "zh-TW": _MAINLAND_WORDS}.get(language, ())
    return [f"{word} belongs to another region" for word in foreign if word in text]


def _marks_foreign_speech(text: str, _: str) -> list[str]:
    return [] if "<lang" in text and "</lang>" in text else ["there is no <lang> span"]


LANGUAGE_SCENARIOS: Final = (
    LanguageScenario(
        id="verbatim_zones",
        prompt="Explain in two sentences how to start, and mention these exactly as they are: "
        + ", ".join(VERBATIM_PARTS)
        + ".",
        check=_keeps_verbatim,
    ),
    LanguageScenario(
        id="zh_idioms",
        prompt="In two sentences, say what one needs to use a computer: software, a network and a mouse.",
        check=_uses_regional_words,
    ),
    LanguageScenario(
        id="roleplay_lang_span",
        prompt="You play a traveller. Greet the reader, and let her say 'thank you' in French, marked as French.",
        check=_marks_foreign_speech,
    ),
)


def is_other_language(text: str, language: str | None) -> bool:
    """Return True if a text is not in the requested language."""
    return language is not None and language_shape(text, language) == "drift"
