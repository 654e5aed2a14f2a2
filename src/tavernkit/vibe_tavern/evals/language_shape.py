"""Guesses from the scripts of a text whether it is in the language that was asked for."""

from __future__ import annotations

import re
from typing import Final, Literal

Shape = Literal["ok", "drift", "unknown"]

_LANG_SPAN = re.compile(r"<lang\b[^>]*>.*?</lang>", re.DOTALL | re.IGNORECASE)
_VERBATIM = re.compile(r"```.*?```|`[^`]*`|\{\{.*?\}\}|\{%.*?%\}|https?://\S+|<[^>]*>", re.DOTALL)
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_HANGUL = re.compile(r"[\u1100-\u11ff\uac00-\ud7af]")
_LATIN_WORD = re.compile(r"[A-Za-z]{3,}")
_MANY_LATIN_WORDS: Final = 3
_MAX_CHARACTERS: Final = 10_000
"""How much of a text is looked at."""


def language_shape(text: str, language: str, *, strict_latin: bool = False) -> Shape:
    """Judge a text by its scripts; spans marked as another language, code and links are left out.

    ``strict_latin`` counts three or more Latin words as drift where the language is written otherwise.
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
