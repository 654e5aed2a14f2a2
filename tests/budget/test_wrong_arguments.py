"""Wrong arguments to the names of ``tavernkit.budget``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tavernkit import ConfigError
from tavernkit.budget import (
    Family,
    FileAdapter,
    FileTokenizer,
    HeuristicAdapter,
    MaxTokens,
    MaxTokensConfig,
    ModelAdapter,
    OverheadProfile,
    RegistryEntry,
    TiktokenAdapter,
    TokenEstimator,
    Tokenization,
    UsageSample,
    apply,
    count_tokens,
    family_of,
    get_tokenizer,
    inspect_messages,
    inspect_plan,
    load_file_tokenizer,
    max_prompt_tokens,
    tokenizer_for_model,
    trim,
)
from tavernkit.prompt import Block, Plan
from tests.budget.tokenizer_files import write_tokenizer
from tests.wrong_arguments import Call, InFolder, Odd, Sweep

BLOCK = Block(role="user", content="Hi")
TEXT = {"text": "Hi", "model_hint": None}
TOKENIZER = get_tokenizer("cl100k_base")
ESTIMATOR = TokenEstimator()

PATH = InFolder(lambda folder: write_tokenizer(folder / "tokenizer.json"))
FILE = InFolder(lambda folder: FileTokenizer(write_tokenizer(folder / "tokenizer.json")))

CALLS: dict[str, Call] = {
    "BundledTokenizer.count": (TOKENIZER.count, {"text": "Hi"}),
    "BundledTokenizer.decode": (TOKENIZER.decode, {"ids": [1]}),
    "BundledTokenizer.encode": (TOKENIZER.encode, {"text": "Hi"}),
    "BundledTokenizer.has_special_token": (TOKENIZER.has_special_token, {"text": "Hi"}),
    "BundledTokenizer.token_bytes": (TOKENIZER.token_bytes, {"token_id": 1}),
    "Family": (Family, {"tokenizer": "cl100k_base"}),
    "FileAdapter": (FileAdapter, {"path": Path("tokenizer.json")}),
    "FileTokenizer": (FileTokenizer, {"path": PATH}),
    "FileTokenizer.count": (FileTokenizer.count, {"self": FILE, "text": "hi"}),
    "FileTokenizer.decode": (FileTokenizer.decode, {"self": FILE, "ids": [9]}),
    "FileTokenizer.encode": (FileTokenizer.encode, {"self": FILE, "text": "hi"}),
    "FileTokenizer.tokenize": (FileTokenizer.tokenize, {"self": FILE, "text": "hi"}),
    "HeuristicAdapter": (HeuristicAdapter, {}),
    "HeuristicAdapter.describe": (HeuristicAdapter().describe, {"model_hint": None}),
    "HeuristicAdapter.estimate": (HeuristicAdapter().estimate, TEXT),
    "HeuristicAdapter.tokenize": (HeuristicAdapter().tokenize, TEXT),
    "MaxTokens": (MaxTokens, {"max_tokens": 5}),
    "MaxTokens.configured": (MaxTokens().configured, {"options": {"max_tokens": 5}}),
    "MaxTokensConfig": (MaxTokensConfig, {}),
    "ModelAdapter": (ModelAdapter, {}),
    "ModelAdapter.describe": (ModelAdapter().describe, {"model_hint": "gpt-5"}),
    "ModelAdapter.estimate": (ModelAdapter().estimate, TEXT),
    "ModelAdapter.tokenize": (ModelAdapter().tokenize, TEXT),
    "OverheadProfile": (OverheadProfile, {}),
    "OverheadProfile.fit": (OverheadProfile.fit, {"samples": [UsageSample(1, 2, 3)]}),
    "OverheadProfile.total": (OverheadProfile().total, {"message_count": 1}),
    "RegistryEntry": (RegistryEntry, {}),
    "RegistryEntry.describe": (RegistryEntry().describe, {"model_hint": "gpt-5"}),
    "RegistryEntry.parse": (RegistryEntry.parse, {"raw": {}}),
    "TokenEstimator": (TokenEstimator, {"registry": {}, "default": HeuristicAdapter()}),
    "TokenEstimator.describe": (ESTIMATOR.describe, {}),
    "TokenEstimator.estimate": (ESTIMATOR.estimate, {"text": "Hi"}),
    "TokenEstimator.preload": (ESTIMATOR.preload, {}),
    "TokenEstimator.tokenize": (ESTIMATOR.tokenize, {"text": "Hi"}),
    "Tokenization": (Tokenization, {"backend": "own", "token_count": 1}),
    "UsageSample": (UsageSample, {"message_count": 1, "estimated_tokens": 2, "prompt_tokens": 3}),
    "apply": (apply, {"blocks": [BLOCK], "result": trim([BLOCK], max_tokens=50)}),
    "count_tokens": (count_tokens, {"text": "Hi"}),
    "family_of": (family_of, {"model": "gpt-5"}),
    "get_tokenizer": (get_tokenizer, {"name": "cl100k_base"}),
    "inspect_messages": (inspect_messages, {"messages": [{"role": "user", "content": "Hi"}]}),
    "inspect_plan": (inspect_plan, {"plan": Plan([BLOCK])}),
    "load_file_tokenizer": (load_file_tokenizer, {"path": PATH}),
    "max_prompt_tokens": (max_prompt_tokens, {"context_window_tokens": 5, "reserved_response_tokens": None}),
    "tokenizer_for_model": (tokenizer_for_model, {"model": None}),
    "trim": (trim, {"blocks": [BLOCK], "max_tokens": 50}),
}

NEEDS_MORE: dict[str, Call] = {
    "FileAdapter.describe": (FileAdapter("tokenizer.json").describe, {"model_hint": None}),
    "FileAdapter.estimate": (FileAdapter("tokenizer.json").estimate, TEXT),
    "FileAdapter.tokenize": (FileAdapter("tokenizer.json").tokenize, TEXT),
    "TiktokenAdapter.describe": (TiktokenAdapter().describe, {"model_hint": None}),
    "TiktokenAdapter.estimate": (TiktokenAdapter().estimate, TEXT),
    "TiktokenAdapter.tokenize": (TiktokenAdapter().tokenize, TEXT),
}
"""Right arguments would need a file, or a network."""

UNCALLED = {
    "BundledTokenizer": "get_tokenizer makes it",
    "EvictionRecord": "a result, made by the thousand",
    "InspectedMessage": "a result",
    "Inspection": "a result",
    "MaxTokens.after": "called by pipelines",
    "PreloadFailure": "a result",
    "PreloadResult": "a result",
    "ShortenedRecord": "a result, made by the thousand",
    "TrimReport": "a result",
    "TrimResult": "a result",
}

ANYTHING = {
    "HeuristicAdapter.chars_per_token": "a ratio that makes no sense becomes the usual one: it may come from a file",
    "RegistryEntry.chars_per_token": "as in HeuristicAdapter",
    "RegistryEntry.parse.raw": "an entry from a file; what is no mapping is no entry",
}


SWEEP = Sweep("tavernkit.budget", CALLS | NEEDS_MORE, UNCALLED, ANYTHING)


def test_every_public_name_is_called() -> None:
    SWEEP.assert_complete()


@pytest.mark.parametrize("name", CALLS)
def test_right_arguments_are_taken(name: str) -> None:
    SWEEP.call(name)


@pytest.mark.parametrize(("name", "parameter"), SWEEP.pairs())
def test_wrong_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    SWEEP.assert_refused(name, parameter)


@pytest.mark.parametrize("text", [None, 0, [], ["Hi"], b"Hi", 5])
def test_an_estimator_takes_only_texts(text: object) -> None:
    with pytest.raises(ConfigError, match="text must be text, not "):
        ESTIMATOR.estimate(text)  # pyright: ignore[reportArgumentType]  # the mistake
    with pytest.raises(ConfigError, match="model_hint must be text or None, not list"):
        ESTIMATOR.estimate("Hi", [])  # pyright: ignore[reportArgumentType]  # the mistake
    assert ESTIMATOR.estimate("") == 0


def test_lists_say_what_to_put_in() -> None:
    with pytest.raises(ConfigError, match="blocks must be a list of Blocks"):
        trim([BLOCK, Odd()])  # pyright: ignore[reportArgumentType]  # the mistake
    with pytest.raises(ConfigError, match="a message of messages must be a Message or a mapping with role and content"):
        inspect_messages([Odd()])  # pyright: ignore[reportArgumentType]  # the mistake
    with pytest.raises(ConfigError, match="samples must be a list of UsageSamples"):
        OverheadProfile.fit([Odd()])  # pyright: ignore[reportArgumentType]  # the mistake
    with pytest.raises(ConfigError, match="ids must be a list of whole numbers"):
        TOKENIZER.decode(["a"])  # pyright: ignore[reportArgumentType]  # the mistake
