"""Chat-completion builds near the budget, for sources and models that are not OpenAI's."""

from __future__ import annotations

from tavernkit.silly_tavern._builder import build
from tavernkit.silly_tavern._token_counting.messages import counting_rule, new_counter
from tests.conformance.adapters.silly_tavern import build_chat
from tests.conformance.adapters.silly_tavern.token_counts import lacking, tokenizer_files
from tests.conformance.runner import Case, UnavailableError


def run(case: Case) -> object:
    inputs = build_chat.inputs(case.input)
    inputs |= {"model_list": case.input.get("model_list", []), "tokenizers": tokenizer_files()}
    preset = inputs["preset"]
    rule = counting_rule(preset.chat_completion_source, preset.model, inputs["model_list"])
    found = {"tokenizer": rule.name}
    if not new_counter(rule, inputs["tokenizers"], print).vocabulary.exact:
        raise UnavailableError(lacking(rule.vocabulary), found)
    return build_chat.result(build(**inputs)) | found
