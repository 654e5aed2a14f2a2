"""Scenarios for the language policy: the answer's language, and what must stay as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tavernkit.errors import ConfigError
from tavernkit.values import JsonObject
from tavernkit.vibe_tavern.evals.lab import Lab, ScenarioOutcome
from tavernkit.vibe_tavern.evals.language_shape import language_shape
from tavernkit.vibe_tavern.prompt_runner import PromptRequest

MAX_TOKENS: Final = 350

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
            lab.config(), message=self.prompt, llm_options={"max_tokens": MAX_TOKENS}, dialect=lab.dialect
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


def drifted(text: str, language: str | None) -> bool:
    """Return True if a text is in another language than asked for."""
    return language is not None and language_shape(text, language) == "drift"
