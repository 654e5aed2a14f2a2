from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tavernkit.budget import TOKENIZER_NAMES, get_tokenizer, tokenizer_for_model
from tavernkit.budget import _adapters as adapters
from tavernkit.budget import _tokenizers as tokenizers
from tavernkit.budget._tokenizers import WORD_VOCABULARIES, family_of, family_or_default
from tavernkit.errors import ConfigError


# Published results of tiktoken itself.
@pytest.mark.parametrize(
    ("name", "text", "ids"),
    [
        ("cl100k_base", "hello world", [15339, 1917]),
        ("cl100k_base", "tiktoken is great!", [83, 1609, 5963, 374, 2294, 0]),
        ("cl100k_base", "antidisestablishmentarianism", [519, 85342, 34500, 479, 8997, 2191]),
        ("cl100k_base", "2 + 2 = 4", [17, 489, 220, 17, 284, 220, 19]),
        ("cl100k_base", "お誕生日おめでとう", [33334, 45918, 243, 21990, 9080, 33334, 62004, 16556, 78699]),
        ("o200k_base", "antidisestablishmentarianism", [493, 129901, 376, 160388, 21203, 2367]),
        ("o200k_base", "2 + 2 = 4", [17, 659, 220, 17, 314, 220, 19]),
        ("o200k_base", "お誕生日おめでとう", [8930, 9697, 243, 128225, 8930, 17693, 4344, 48669]),
    ],
)
def test_openai_encodings_give_the_ids_of_tiktoken(name: str, text: str, ids: list[int]) -> None:
    tokenizer = get_tokenizer(name)
    assert tokenizer.encode(text) == ids
    assert tokenizer.count(text) == len(ids)
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("name", TOKENIZER_NAMES)
def test_every_bundled_tokenizer_counts_what_it_encodes_and_decodes_it_back(name: str) -> None:
    tokenizer = get_tokenizer(name)
    for text in (
        "",
        "Hello there, traveller.",
        "日本語と emoji 🎉🏳️‍🌈",
        "a\n\n  b\tc",
        "x" * 5000,
        "<s>[INST] <|im_start|>",
    ):
        ids = tokenizer.encode(text)
        assert tokenizer.count(text) == len(ids)
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("name", sorted(WORD_VOCABULARIES))
def test_no_token_spans_the_end_of_a_word_or_line_where_texts_are_counted_by_words(name: str) -> None:
    tokenizer = get_tokenizer(name)
    tokens = [tokenizer.token_bytes(number) for number in range(32_000)]
    assert not [token for token in tokens if b" " in token.lstrip(b" ") or b"\n" in token[1:]]


def test_counts_stay_exact_when_the_remembered_words_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "CACHED_TEXTS", 3)
    tokenizer = get_tokenizer("llama2")
    text = "one two three four five six\nseven eight\nnine ten\n" * 3
    assert tokenizer.count(text) == len(tokenizer.encode(text)) == tokenizer.count(text)


@pytest.mark.parametrize("name", ["llama2", "gemma3", "cl100k_base"])
def test_a_very_long_text_is_never_given_to_the_engine_as_a_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One word of 26 million characters took gigabytes, and the engine ends the process if there are none."""
    tokenizer = get_tokenizer(name)
    words, word = "several words of a text " * 400, "xq" * 5000
    exact = [tokenizer.count(text) for text in (words, word)]
    monkeypatch.setattr(tokenizers, "MAX_PART_CHARACTERS", 1000)
    longest = 0

    def encode(text: str) -> list[int]:
        nonlocal longest
        longest = max(longest, len(text))
        return tokenizer._core.encode_ordinary(text)

    watched = tokenizers.BundledTokenizer(name, tokenizer._core, 0)
    watched._ordinary = encode
    watched._flat = None
    assert watched.count(words) == exact[0]
    assert abs(watched.count(word) - exact[1]) <= 10
    assert abs(len(watched.encode(word)) - exact[1]) <= 10
    if name == "cl100k_base":
        assert watched.encode(words) == tokenizer._core.encode_ordinary(words)
        assert watched.decode(watched.encode(word)) == word
    assert 0 < longest <= 1000


def test_of_a_very_long_text_only_the_count_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "MAX_PART_CHARACTERS", 10)
    assert adapters.ModelAdapter().tokenize("a b", None).ids == [64, 293]
    long = adapters.ModelAdapter().tokenize("a b c d e f g", None)
    assert (long.ids, long.token_count) == (None, 7)


@pytest.mark.parametrize("name", TOKENIZER_NAMES)
def test_special_tokens_in_a_text_are_ordinary_text(name: str) -> None:
    tokenizer = get_tokenizer(name)
    for token in sorted(tokenizer.special_tokens)[:10]:
        text = f"say {token} now"
        assert tokenizer.count(text) == len(tokenizer.encode(text))
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.has_special_token(text)


def test_special_tokens_are_the_models_own() -> None:
    assert get_tokenizer("cl100k_base").special_tokens == {
        "<|endoftext|>",
        "<|fim_prefix|>",
        "<|fim_middle|>",
        "<|fim_suffix|>",
        "<|endofprompt|>",
    }
    assert get_tokenizer("o200k_base").special_tokens == {"<|endoftext|>", "<|endofprompt|>"}
    assert not get_tokenizer("cl100k_base").has_special_token("<|im_start|> and <|system|>")


def test_half_a_surrogate_pair_counts_as_the_replacement_character() -> None:
    tokenizer = get_tokenizer("cl100k_base")
    assert tokenizer.encode("a\ud800b") == tokenizer.encode("a\ufffdb")
    assert tokenizer.count("a\ud800b") == tokenizer.count("a\ufffdb")
    assert tokenizer.count("\ud83d\ude00") == tokenizer.count("😀")


@pytest.mark.parametrize("name", ["cl100k_base", "llama2", "gemma3"])
def test_part_of_a_character_decodes_to_the_replacement_character(name: str) -> None:
    tokenizer = get_tokenizer(name)
    ids = tokenizer.encode("🫏")
    assert len(ids) > 1
    assert "\ufffd" in tokenizer.decode(ids[:-1])


def test_an_id_outside_the_vocabulary_is_refused() -> None:
    for bad in (10**9, -1):
        with pytest.raises(ConfigError) as caught:
            get_tokenizer("cl100k_base").decode([9906, bad])
        assert caught.value.code == "UNKNOWN_TOKEN"


def test_unknown_tokenizer_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"cl100k_base.*tokenizer_for_model\(\)") as caught:
        get_tokenizer("p50k_base")
    assert caught.value.code == "UNKNOWN_TOKENIZER"


def test_a_tokenizer_is_loaded_once_for_all_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(get_tokenizer, ["olmo2"] * 16))
    assert all(each is found[0] for each in found)


def test_aliases_give_the_same_tokenizer() -> None:
    assert get_tokenizer("o200k_harmony") is get_tokenizer("gpt-oss")


@pytest.mark.parametrize(
    ("model", "tokenizer"),
    [
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo-2024-04-09", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("gpt-4o-mini", "o200k_base"),
        ("openai/gpt-4.1", "o200k_base"),
        ("gpt-5.1", "o200k_base"),
        ("o1", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("gpt-oss-120b", "gpt-oss"),
        ("meta-llama/Llama-3.1-70B-Instruct:free", "llama3"),
        ("meta-llama/llama-2-13b-chat", "llama2"),
        ("deepseek/deepseek-chat-v3-0324", "deepseek_v3"),
        ("deepseek-r1-distill-llama-70b", "llama3"),
        ("deepseek-r1-distill-qwen-32b", "qwen3"),
        ("qwen/qwen3-235b-a22b", "qwen3"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistral_v1"),
        ("mistralai/mixtral-8x22b-instruct", "mistral_v2"),
        ("mistral-large-latest", "mistral_v3"),
        ("z-ai/glm-4.7-flash", "glm4"),
        ("moonshotai/kimi-k2.5", "kimi_k2"),
        ("google/gemma-2-9b-it", "gemma2"),
        ("gemma-3-27b", "gemma3"),
    ],
)
def test_a_models_name_tells_its_own_tokenizer(model: str, tokenizer: str) -> None:
    family = family_of(model)
    assert family is not None
    assert (family.tokenizer, family.exact) == (tokenizer, True)
    assert tokenizer_for_model(model) is get_tokenizer(tokenizer)


@pytest.mark.parametrize(("model", "tokenizer"), [("gemini-2.5-pro", "gemma3"), ("llama-4-maverick", "llama3")])
def test_relatives_get_the_closest_tokenizer_and_say_so(model: str, tokenizer: str) -> None:
    family = family_of(model)
    assert family is not None
    assert (family.tokenizer, family.exact) == (tokenizer, False)


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "some-finetune", "", None, "o2", "photo1"])
def test_unknown_models_get_cl100k_and_say_it_is_not_theirs(model: str | None) -> None:
    family = family_or_default(model)
    assert (family.tokenizer, family.exact) == ("cl100k_base", False)


def test_importing_the_budget_loads_no_tokenizer_and_nothing_optional() -> None:
    code = (
        "import sys, tavernkit.budget, tavernkit.dialects;"
        "heavy = {'splintr', 'tokenizers', 'tiktoken', 'openai', 'anthropic', 'pydantic'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
