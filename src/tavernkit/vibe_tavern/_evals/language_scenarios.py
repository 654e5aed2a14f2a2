"""Scenarios for the language policy: the answer's language, and what must stay as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._evals.lab import Lab, ScenarioOutcome
from tavernkit.vibe_tavern._prompt_runner import PromptRequest

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


def is_other_language(text: str, language: str | None) -> bool:
    """Return True if a text is not in the requested language."""
    return language is not None and language_shape(text, language) == "drift"
