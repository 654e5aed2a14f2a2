from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from tavernkit._values import JsonObject
from tavernkit.budget import (
    FileAdapter,
    FileTokenizer,
    HeuristicAdapter,
    ModelAdapter,
    TiktokenAdapter,
    TokenEstimator,
    Tokenization,
    count_tokens,
    forget_file_tokenizers,
    get_tokenizer,
    load_file_tokenizer,
)
from tavernkit.budget import _tokenizers as tokenizers
from tavernkit.budget._estimator import CountCache
from tavernkit.budget._file_tokenizer import splintr_codec
from tavernkit.errors import ConfigError, StrictModeError, WarningLog
from tests.budget.tokenizer_files import write_tokenizer


class Counting:
    """An adapter that remembers how often it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str | None]] = []

    def estimate(self, text: str, model_hint: str | None) -> int:
        self.calls.append((text[:20], model_hint))
        return len(text)

    def tokenize(self, text: str, model_hint: str | None) -> Tokenization:
        return Tokenization(backend="counting", token_count=len(text))

    def describe(self, model_hint: str | None) -> JsonObject:
        return {"backend": "counting"}


class Broken:
    def estimate(self, text: str, model_hint: str | None) -> int:
        raise RuntimeError("out of order")

    def tokenize(self, text: str, model_hint: str | None) -> Tokenization:
        raise RuntimeError("out of order")

    def describe(self, model_hint: str | None) -> JsonObject:
        raise RuntimeError("out of order")


@pytest.fixture(autouse=True)
def fresh_files() -> None:
    forget_file_tokenizers()


def test_the_model_decides_the_tokenizer() -> None:
    text = "Antidisestablishmentarianism, お誕生日おめでとう"
    estimator = TokenEstimator()
    for model, tokenizer in (("gpt-4", "cl100k_base"), ("gpt-4o", "o200k_base"), ("qwen3-30b", "qwen3")):
        assert estimator.estimate(text, model) == get_tokenizer(tokenizer).count(text)
    assert count_tokens(text) == get_tokenizer("cl100k_base").count(text)
    assert count_tokens(text, "gpt-4o") == get_tokenizer("o200k_base").count(text)


def test_the_same_text_is_counted_once_for_each_model() -> None:
    adapter = Counting()
    estimator = TokenEstimator(default=adapter)
    for text in ("short", "long " * 5000):
        for _ in range(3):
            assert estimator.estimate(text, "a") == estimator.estimate(text, "b") == len(text)
    assert [call[1] for call in adapter.calls] == ["a", "b", "a", "b"]


def test_long_texts_that_differ_in_one_character_are_not_confused() -> None:
    estimator = TokenEstimator(default=Counting())
    long = "x" * 10_000
    assert estimator.estimate(long + "a") == estimator.estimate(long + "b") == 10_001
    assert estimator.estimate(long) == 10_000


def test_the_cache_forgets_the_least_recently_used_text() -> None:
    adapter = Counting()
    estimator = TokenEstimator(default=adapter, cache_size=2)
    for text in ("one", "two", "one", "three", "one", "two"):
        estimator.estimate(text)
    assert [text for text, _ in adapter.calls] == ["one", "two", "three", "two"]


def test_two_estimators_share_nothing() -> None:
    assert TokenEstimator(default=Counting()).estimate("abcdefgh") == 8
    assert TokenEstimator(default=HeuristicAdapter()).estimate("abcdefgh") == 2


def test_empty_text_costs_nothing_and_asks_nobody() -> None:
    adapter = Counting()
    assert TokenEstimator(default=adapter).estimate("") == 0
    assert adapter.calls == []


def test_a_broken_default_falls_back_to_the_heuristic_and_is_reported_once() -> None:
    log = WarningLog()
    estimator = TokenEstimator(default=Broken(), warn=log)
    assert estimator.estimate("abcdefghi") == 3
    assert estimator.estimate("abcd") == 1
    assert estimator.tokenize("abcd").backend == "heuristic"
    assert estimator.describe() == {"backend": "heuristic", "chars_per_token": 4.0}
    assert len(log.messages) == 1
    assert "out of order" in log.messages[0]


def test_a_strict_log_turns_the_failure_into_an_error() -> None:
    with pytest.raises(StrictModeError, match="out of order"):
        TokenEstimator(default=Broken(), warn=WarningLog(strict=True)).estimate("text")


@pytest.mark.parametrize(
    ("ratio", "tokens"),
    [(4.0, 3), (2, 5), ("3", 3), (0, 3), (-1, 3), ("x", 3), (None, 3), (True, 3), (float("nan"), 3)],
)
def test_the_heuristic_divides_characters_and_ignores_ratios_that_make_no_sense(ratio: object, tokens: int) -> None:
    assert HeuristicAdapter(ratio).estimate("abcdefghi", None) == tokens
    assert HeuristicAdapter(ratio).estimate("", None) == 0


class TestRegistry:
    def test_the_exact_name_comes_before_globs_and_the_first_glob_wins(self) -> None:
        heuristic = {"tokenizer_family": "heuristic"}
        estimator = TokenEstimator(
            registry={
                "my-*": {**heuristic, "chars_per_token": 1},
                "my-mo?el": {**heuristic, "chars_per_token": 3},
                "my-model": {**heuristic, "chars_per_token": 2},
            }
        )
        assert estimator.estimate("abcdef", "my-model") == 3
        assert estimator.estimate("abcdef", "my-moxel") == 6
        assert estimator.estimate("abcdef", "gpt-4") == get_tokenizer("cl100k_base").count("abcdef")

    def test_an_object_with_lookup_and_a_function_are_registries_too(self) -> None:
        entry = {"Tokenizer-Family ": "heuristic", "chars-per-token": 2}

        class Registry:
            def lookup(self, model_hint: str, /) -> object:
                return entry if model_hint == "m" else None

        for registry in (Registry(), Registry().lookup):
            estimator = TokenEstimator(registry=registry)
            assert estimator.estimate("abcdef", "m") == 3
            assert estimator.describe("other")["backend"] == "splintr"

    def test_a_registry_that_raises_counts_as_having_no_entry(self) -> None:
        log = WarningLog()

        def registry(model_hint: str) -> object:
            raise KeyError(model_hint)

        estimator = TokenEstimator(registry=registry, warn=log)
        assert estimator.estimate("hello world", "gpt-4") == 2
        assert len(log.messages) == 1

    @pytest.mark.parametrize("entry", [None, "heuristic", 7, {}, {"tokenizer_family": "tiktoken"}])
    def test_an_entry_that_asks_for_nothing_special_gets_the_default(self, entry: object) -> None:
        assert TokenEstimator(registry={"m": entry}).estimate("hello world", "m") == 2

    def test_an_entry_may_name_a_bundled_tokenizer(self) -> None:
        text = "お誕生日おめでとう"
        estimator = TokenEstimator(registry={"m*": {"tokenizer_family": "gpt-oss"}})
        assert estimator.estimate(text, "mine") == get_tokenizer("gpt-oss").count(text)

    def test_a_blank_path_gets_the_default(self) -> None:
        estimator = TokenEstimator(registry={"m": {"tokenizer_family": "hf_tokenizers", "tokenizer_path": "  "}})
        assert estimator.describe("m")["backend"] == "splintr"

    def test_describe_and_details_tell_what_the_registry_said(self) -> None:
        entry = {"tokenizer_family": "heuristic", "source_hint": "qwen3", "source_repo": "", "chars_per_token": 2}
        estimator = TokenEstimator(registry={"m": entry})
        expected = {
            "backend": "heuristic",
            "chars_per_token": 2.0,
            "registry": True,
            "source": "registry",
            "registry_tokenizer_family": "heuristic",
            "registry_source_hint": "qwen3",
            "registry_model_hint": "m",
        }
        assert estimator.describe("m") == expected
        assert estimator.tokenize("abc", "m").details == expected

    def test_a_source_that_is_known_is_kept(self) -> None:
        estimator = TokenEstimator(registry={"gpt-4": {"source_repo": "r"}})
        assert estimator.describe("gpt-4") == {
            "backend": "splintr",
            "encoding": "cl100k_base",
            "exact": True,
            "source": "model",
            "registry": True,
            "registry_source_repo": "r",
            "registry_model_hint": "gpt-4",
        }


class TestFiles:
    def test_a_local_file_gives_ids_tokens_and_offsets(self, tmp_path: Path) -> None:
        path = write_tokenizer(tmp_path / "tokenizer.json")
        estimator = TokenEstimator(
            registry={"m": {"tokenizer_family": "HuggingFace-Tokenizers", "tokenizer_path": str(path)}}
        )
        assert estimator.estimate("hi the rer", "m") == 5
        result = estimator.tokenize("hi the", "m")
        assert (result.ids, result.tokens, result.offsets) == ([9, 13], ["hi", "Ġthe"], [(0, 2), (2, 6)])
        assert result.detailed
        assert estimator.describe("m")["tokenizer_path"] == str(path)

    def test_a_file_is_read_once(self, tmp_path: Path) -> None:
        path = write_tokenizer(tmp_path / "tokenizer.json")
        first = load_file_tokenizer(path)
        path.unlink()
        assert load_file_tokenizer(str(path)) is first
        assert first.decode(first.encode("hi the rer")) == "hi the rer"

    def test_a_very_long_text_is_encoded_in_parts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        tokenizer = FileTokenizer(write_tokenizer(tmp_path / "tokenizer.json"))
        parts: list[str] = []
        encode = tokenizer._encode

        def watched(text: str):
            parts.append(text)
            return encode(text)

        text = "hi the the the"
        whole = tokenizer.encode(text)
        monkeypatch.setattr(tokenizer, "_encode", watched)
        monkeypatch.setattr(tokenizers, "MAX_PART_CHARACTERS", 8)
        assert tokenizer.encode(text) == whole
        assert parts == ["hi the", " the the"]

    def test_without_the_tokenizers_package_the_same_ids_come_out(self, tmp_path: Path) -> None:
        path = write_tokenizer(tmp_path / "tokenizer.json")
        encode, decode = splintr_codec(path.read_bytes())
        assert encode("hi the rer").ids == FileTokenizer(path).encode("hi the rer")
        assert decode([9, 13]) == "hi the"

    def test_a_missing_file_falls_back_to_the_models_family_with_one_warning(self, tmp_path: Path) -> None:
        log = WarningLog()
        missing = str(tmp_path / "missing.json")
        entry = {"tokenizer_family": "hf_tokenizers", "tokenizer_path": missing}
        estimator = TokenEstimator(registry={"deepseek-*": entry}, warn=log)
        for text in ("hello world", "お誕生日おめでとう"):
            assert estimator.estimate(text, "deepseek-v3.2") == get_tokenizer("deepseek_v3").count(text)
        assert len(log.messages) == 1
        assert missing in log.messages[0]

    @pytest.mark.parametrize("content", ["", "[]", "{}", "{", '{"model": {"type": "Nothing"}}', "\xff"])
    def test_a_file_that_is_no_tokenizer_is_refused(self, tmp_path: Path, content: str) -> None:
        path = tmp_path / "tokenizer.json"
        path.write_bytes(content.encode("latin-1"))
        for _ in range(2):
            with pytest.raises(ValueError, match=r".+"):
                load_file_tokenizer(path)

    def test_preload_tells_what_was_loaded_and_what_was_not(self, tmp_path: Path) -> None:
        good = str(write_tokenizer(tmp_path / "good.json"))
        missing = str(tmp_path / "missing.json")
        family = {"tokenizer_family": "tokenizers"}
        estimator = TokenEstimator(
            registry={
                "a": {**family, "tokenizer_path": good},
                "b": {**family, "tokenizer_path": missing},
                "c": {**family, "tokenizer_path": good},
                "d": {"tokenizer_family": "heuristic"},
            }
        )
        result = estimator.preload()
        assert result.loaded == (good,)
        assert [(failure.path, failure.error_class) for failure in result.failed] == [(missing, "FileNotFoundError")]
        with pytest.raises(ConfigError, match=r"missing\.json"):
            estimator.preload(strict=True)

    def test_preload_of_other_registries_does_nothing(self) -> None:
        assert TokenEstimator(registry=lambda model: None).preload(strict=True).loaded == ()
        assert TokenEstimator().preload(strict=True).failed == ()


class TestTokenize:
    def test_bundled_tokenizers_show_each_token_and_where_it_stands(self) -> None:
        text = "hello 🫏 world"
        result = TokenEstimator().tokenize(text, "gpt-4")
        assert result.backend == "splintr"
        assert result.ids == get_tokenizer("cl100k_base").encode(text)
        assert result.tokens is not None
        assert result.offsets is not None
        assert (result.tokens[0], result.tokens[-1]) == ("hello", " world")
        assert (result.offsets[0], result.offsets[-1]) == ((0, 5), (7, 13))
        assert all(text[start:end] for start, end in result.offsets)

    def test_tokens_that_do_not_spell_the_text_have_no_offsets(self) -> None:
        result = ModelAdapter("llama2").tokenize("hi there", None)
        assert result.offsets is None
        assert result.token_count == len(result.ids or ())

    def test_describe_says_whether_the_encoding_is_the_models_own(self) -> None:
        estimator = TokenEstimator()
        assert estimator.describe("gpt-4o")["source"] == "model"
        assert estimator.describe("gemini-2.5-pro") == {
            "backend": "splintr",
            "encoding": "gemma3",
            "exact": False,
            "source": "model",
        }
        assert estimator.describe("claude-opus-4")["source"] == "default"
        assert estimator.describe()["source"] == "default"

    def test_a_tokenization_can_be_written_as_json(self) -> None:
        plain = TokenEstimator().tokenize("hi").to_dict()
        assert plain["ids"] == [6151]
        assert plain["offsets"] == [[0, 2]]
        assert HeuristicAdapter().tokenize("hi", None).to_dict() == {
            "backend": "heuristic",
            "token_count": 1,
            "details": {"backend": "heuristic", "chars_per_token": 4.0},
        }


class TestTiktoken:
    @pytest.fixture(autouse=True)
    def package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def encoding(name: str) -> SimpleNamespace:
            return SimpleNamespace(name=name, encode_ordinary=get_tokenizer(name).encode)

        def encoding_for_model(model: str) -> SimpleNamespace:
            return encoding({"gpt-4o": "o200k_base"}[model])

        fake = SimpleNamespace(get_encoding=encoding, encoding_for_model=encoding_for_model)
        monkeypatch.setitem(sys.modules, "tiktoken", fake)  # pyright: ignore[reportArgumentType]

    def test_it_counts_with_the_models_encoding_or_cl100k(self) -> None:
        estimator = TokenEstimator(default=TiktokenAdapter())
        text = "お誕生日おめでとう"
        assert estimator.estimate(text, "gpt-4o") == get_tokenizer("o200k_base").count(text)
        assert estimator.estimate(text, "unheard-of") == get_tokenizer("cl100k_base").count(text)
        assert estimator.describe("gpt-4o") == {"backend": "tiktoken", "encoding": "o200k_base", "source": "model"}
        assert estimator.describe("unheard-of")["source"] == "default"
        assert estimator.tokenize("hello world").ids == [15339, 1917]


def test_an_estimator_can_be_shared_between_threads() -> None:
    estimator = TokenEstimator(cache_size=64)
    texts = [f"text number {index % 100}" for index in range(2000)]
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(estimator.estimate, texts))
    assert counts == [get_tokenizer("cl100k_base").count(text) for text in texts]


def test_a_file_adapter_can_be_the_default(tmp_path: Path) -> None:
    adapter = FileAdapter(write_tokenizer(tmp_path / "t.json"))
    assert TokenEstimator(default=adapter).estimate("hi the") == 2


def test_the_cache_is_bounded_in_characters_too() -> None:
    cache = CountCache(max_size=100, max_characters=20)
    for text in ("a" * 8, "b" * 8, "c" * 8):
        cache.put(None, text, 1)
    assert cache.get(None, "a" * 8) is None
    assert len(cache) == 2
    cache.put(None, "c" * 8, 2)
    assert (cache.get(None, "b" * 8), cache.get(None, "c" * 8)) == (1, 2)
    cache.put(None, "d" * 21, 3)
    assert len(cache) == 0
