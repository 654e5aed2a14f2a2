"""Counting tokens. Vocabularies that may not be shipped come from the folder in ``SILLYTAVERN_TOKENIZERS``."""

from __future__ import annotations

import os
from typing import Any

from tavernkit.silly_tavern._chat.attachments import inline_media
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._token_counting.choice import (
    TOKENIZER_NAMES,
    TOKENIZERS,
    TextBackend,
    TextTokenizer,
    best_match,
    chosen_tokenizer,
)
from tavernkit.silly_tavern._token_counting.messages import MessageCounter, counting_rule, new_counter
from tavernkit.silly_tavern._token_counting.vocabularies import ESTIMATE, TokenizerFiles, estimate, load_vocabulary
from tests.conformance.runner import Case, UnavailableError

MODEL_KEYS = {"makersuite": "google_model"}


def tokenizer_files() -> TokenizerFiles | None:
    folder = os.environ.get("SILLYTAVERN_TOKENIZERS")
    return TokenizerFiles(folder) if folder else None


def run(case: Case) -> object:
    return {"chat": chat, "text": text, "media": media}[case.input["kind"]](case.input)


def counter(given: Any) -> MessageCounter:
    rule = counting_rule(given["source"], given["model"], given.get("model_list", ()))
    return new_counter(rule, tokenizer_files(), print)


def lacking(name: str) -> str:
    return f"the vocabulary {name}"


def chat(given: Any) -> object:
    counts = counter(given)
    rule = counts.rule
    found: dict[str, object] = {"tokenizer": rule.name, "resolved": rule.family, "vocabulary": rule.vocabulary}
    if not counts.vocabulary.exact:
        raise UnavailableError(lacking(rule.vocabulary), found)
    messages = given["messages"]
    return found | {
        "per_message": [counts.count([message]) for message in messages],
        "all": counts.count(messages),
        "all_full": counts.count(messages, full=True),
        "lore": counts.lore(given["lore_text"]),
    }


def text(given: Any) -> object:
    if given["main_api"] == "openai":
        padding: int = given.get("padding", -1)
        shadow = padding == given.get("token_padding", 64)
        return {"count": estimate(given["text"]) + padding if shadow else counter(given).lore(given["text"])}
    backend = TextBackend(
        main_api=given["main_api"],
        type=given.get("type", ""),
        model=given.get("model", "clio-v1" if given["main_api"] == "novel" else ""),
        online=given.get("online", "no_connection"),
        supported=given.get("supported", False),
        can_tokenize=given.get("can_tokenize", False),
        failed=given.get("warned", False),
        model_list=given.get("model_list", ()),
    )
    before = best_match(backend)
    found: dict[str, object] = {"best_match": before, "best_match_name": TOKENIZER_NAMES[before]}
    vocabulary = load_vocabulary(
        TOKENIZERS.get(chosen_tokenizer(given["tokenizer"], backend), ESTIMATE), tokenizer_files(), print
    )
    if not vocabulary.exact and given["text"]:
        raise UnavailableError(lacking(vocabulary.name), found)
    tokenizer = TextTokenizer(
        given["tokenizer"],
        backend,
        lambda name, text: load_vocabulary(name, tokenizer_files(), print).count(text),
        words if given.get("remote") == "up" else nobody,
    )
    after = {"count": tokenizer.count(given["text"], given.get("padding", 0))}
    match = best_match(tokenizer.backend)
    return found | {
        **after,
        "best_match_after": match,
        "best_match_after_name": TOKENIZER_NAMES[match],
        "warned_after": tokenizer.backend.failed,
    }


def words(text: str) -> int:
    return len(text.split())


def nobody(_text: str) -> int:
    raise ConnectionRefusedError


def media(given: Any) -> object:
    kind, url = given["media"], "/user/images/x"
    item = {"url": url, "type": kind, **({"duration": given["seconds"]} if "seconds" in given else {})}
    model = {MODEL_KEYS.get(given["source"], f"{given['source']}_model"): given["model"]}
    preset = Preset.from_json(
        {
            "chat_completion_source": given["source"],
            **model,
            "media_inlining": True,
            "inline_image_quality": given["quality"],
        }
    )
    line = ChatMessage.from_json({"mes": given["text"], "is_user": True, "extra": {"media": [item]}})
    size = None if given.get("broken") else (given.get("width", 0), given.get("height", 0))
    found_media = inline_media(line, preset, default_display="list", measure=lambda _url: size)
    assert found_media is not None
    inline = found_media[0]
    part: Any = inline.part
    found = {
        "media_tokens": inline.tokens,
        "parts": ["text", part["type"]],
        **({"detail": part[part["type"]]["detail"]} if "detail" in part[part["type"]] else {}),
    }
    counts = counter(given)
    if not counts.vocabulary.exact:
        raise UnavailableError(lacking(counts.rule.vocabulary), found)
    tokens = counts.message("user", given["text"])
    return found | {"text_tokens": tokens, "total": tokens + inline.tokens}
