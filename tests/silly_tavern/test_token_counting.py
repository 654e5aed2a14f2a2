from __future__ import annotations

import gzip
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.budget import _file_tokenizer
from tavernkit.silly_tavern import TokenizerFiles
from tavernkit.silly_tavern._files.preset import MODEL_KEYS
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._token_counting import vocabularies
from tavernkit.silly_tavern._token_counting.choice import (
    BEST_MATCH,
    NAMES,
    TextBackend,
    TextTokenizer,
    best_match,
    chosen_tokenizer,
    family_name,
)
from tavernkit.silly_tavern._token_counting.messages import CountingRule, MessageCounter, counting_rule, new_counter
from tavernkit.silly_tavern._token_counting.vocabularies import (
    VOCABULARIES,
    bundled_counter,
    estimate,
    load_vocabulary,
    token_encoder,
    vocabulary_of,
)
from tests.budget.tokenizer_files import write_tokenizer
from tests.silly_tavern.scene import build, preset

CL100K = MessageCounter(counting_rule("openai", "gpt-4"))
MISTRAL = MessageCounter(counting_rule("mistralai", "mistral-large"))


def refuse(message: str) -> None:
    raise AssertionError(message)


def test_a_message_costs_four_and_its_texts():
    assert CL100K.message("user", "hello") == 4 + 1 + 1


def test_a_name_costs_its_tokens_and_one():
    assert CL100K.message("user", "hello", "Mira") == CL100K.message("user", "hello") + CL100K.text("Mira") + 1


def test_counting_stops_at_a_special_token():
    assert CL100K.message("user", "a <|endoftext|> b", "Mira") == 5
    assert CL100K.message("user", "a", "<|endoftext|>") == CL100K.message("user", "a")
    assert CL100K.texts(["assistant", "<|endoftext|>", "more"]) == 5


def test_the_oldest_model_counts_differently():
    counter = MessageCounter(counting_rule("openai", "gpt-3.5-turbo-0301-x"))
    assert counter.message("user", "hello") == 14 + 1 + 1
    assert counter.message("user", "hello", "Mira") == 14 + 1 + 1 + counter.text("Mira") - 1


def test_families_other_than_openais_count_a_message_as_one_text():
    assert MISTRAL.message("user", "hello") == MISTRAL.text("user\n\nhello") - 2
    assert MISTRAL.message("user", "hello", "Mira") == MISTRAL.text("user\n\nhello\n\nMira") - 2


def test_only_the_name_claude_is_always_counted_in_full():
    source = MessageCounter(counting_rule("claude", "claude-sonnet-4"))
    custom = MessageCounter(counting_rule("custom", "claude-sonnet-4"))
    assert source.message("user", "hello") == custom.message("user", "hello") + 2


def test_a_list_loses_its_discount_once():
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    assert CL100K.count(messages) == CL100K.count(messages, full=True) - 2
    assert CL100K.count(messages, full=True) == sum(CL100K.count([each], full=True) for each in messages)


def test_a_value_that_is_no_text_ends_the_count_or_is_written_out():
    message = {"role": "user", "content": 12, "name": "Mira"}
    assert CL100K.count([message]) == 4 + 1
    assert MISTRAL.count([message]) == MISTRAL.text("user\n\n12\n\nMira") - 2


def test_lore_costs_six_more_with_openais_families_only():
    assert CL100K.lore("fog") == CL100K.text("fog") + 6
    assert MISTRAL.lore("fog") == MISTRAL.text("fog")
    assert CL100K.lore("") == 0


@pytest.mark.parametrize(
    ("source", "model", "vocabulary"),
    [
        ("openai", "gpt-4", "cl100k_base"),
        ("openai", "gpt-4o-mini", "o200k_base"),
        ("openai", "o1", "o200k_base"),
        ("openai", "o1-pro", "cl100k_base"),
        ("openai", "gpt-5.6-terra", "o200k_base"),
        ("openai", "something-new", "cl100k_base"),
        ("azure_openai", "", "cl100k_base"),
        ("custom", "deepseek-chat", "deepseek"),
        ("custom", "my-llama3-tune", "llama3"),
        ("custom", "Llama-3-70B", "cl100k_base"),
        ("deepseek", "anything", "deepseek"),
        ("openrouter", "openai/gpt-4o", "o200k_base"),
        ("openrouter", "openai/gpt-5", "cl100k_base"),
        ("openrouter", "", "cl100k_base"),
        ("mistralai", "mistral-large", "mistral"),
        ("mistralai", "pixtral-12b", "nemo"),
        ("chutes", "Qwen/QwQ", "qwen2"),
        ("electronhub", "l3-lumimaid", "llama3"),
        ("nanogpt", "claude-3", "cl100k_base"),
        ("perplexity", "r1-1776", "deepseek"),
    ],
)
def test_the_vocabulary_follows_source_and_model(source: str, model: str, vocabulary: str):
    assert counting_rule(source, model).vocabulary == vocabulary


def test_the_model_list_of_openrouter_beats_the_name():
    listed = [{"id": "x/claude-like", "architecture": {"tokenizer": "Llama3"}}]
    assert counting_rule("openrouter", "x/claude-like", listed).vocabulary == "llama3"
    assert counting_rule("openrouter", "x/claude-like").vocabulary == "claude"
    assert counting_rule("openrouter", "x/claude-like", [{"id": "x/claude-like"}]).vocabulary == "claude"


@given(st.text(max_size=30), st.text(max_size=30))
def test_every_source_and_model_has_a_rule(source: str, model: str):
    assert counting_rule(source, model).vocabulary in VOCABULARIES


def test_a_symbol_is_one_token_wherever_it_stands():
    count = bundled_counter("gemma")
    assert count("<b>lamp</b>") == 2 + count("lamp")
    assert count("a<b") == bundled_counter("gemma")("a<b") > 1


def test_long_texts_are_counted_and_remembered_without_being_kept():
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    counter = MessageCounter(CountingRule("gpt-4", "gpt-4", "cl100k_base"), count=count)
    assert [counter.text("x" * 10_000), counter.text("x" * 10_000)] == [10_000, 10_000]
    assert len(counted) == 1


@pytest.mark.parametrize("text", ["", "\ud800 lone", "<b>\udfff", "héllo"])
@pytest.mark.parametrize("name", ["llama", "llama3", "gemma", "qwen2", "deepseek"])
def test_any_text_can_be_counted(name: str, text: str):
    assert bundled_counter(name)(text) >= 0


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package that brings vocabularies is installed."""
    monkeypatch.setattr(vocabularies, "installed_file", lambda package, place: None)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, found before all others."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("litellm", "novelai_api"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('it is not imported')", "utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_an_installed_package_may_bring_the_vocabulary(packages: Path):
    assert not load_vocabulary("claude", None, refuse).exact
    vocabulary = VOCABULARIES["claude"]
    assert vocabulary.installed is not None
    path = packages.joinpath(*vocabulary.installed)
    path.parent.mkdir(parents=True)
    write_tokenizer(path)
    found = load_vocabulary("claude", None, refuse)
    assert found.exact
    assert found.count("the hi") == 3
    encode = token_encoder("claude", None)
    assert encode is not None
    assert encode("the hi") == [11, 1, 9]


def test_a_given_file_goes_before_that_of_a_package(packages: Path, tmp_path: Path):
    vocabulary = VOCABULARIES["claude"]
    assert vocabulary.installed is not None
    path = packages.joinpath(*vocabulary.installed)
    path.parent.mkdir(parents=True)
    path.write_text("no JSON", "utf-8")
    write_tokenizer(tmp_path / "claude.json")
    assert load_vocabulary("claude", TokenizerFiles(tmp_path), refuse).exact
    told: list[str] = []
    assert not load_vocabulary("claude", None, told.append).exact
    assert "anthropic_tokenizer.json cannot be used" in told[0]


@pytest.mark.parametrize("spec", [None, ModuleSpec("litellm", None)])
def test_a_module_of_the_same_name_is_no_package(spec: ModuleSpec | None, monkeypatch: pytest.MonkeyPatch):
    module = ModuleType("litellm")
    module.__spec__ = spec
    monkeypatch.setitem(sys.modules, "litellm", module)
    assert not load_vocabulary("claude", None, refuse).exact


@pytest.mark.usefixtures("no_packages")
def test_a_stand_in_says_for_what_it_stands_and_how_far_off_it_may_be():
    vocabulary = load_vocabulary("claude", None, refuse)
    assert not vocabulary.exact
    assert "cl100k_base is used instead of claude" in vocabulary.stands_in
    assert "133 %" in vocabulary.stands_in


WORDS = {
    "version": "1.0",
    "model": {"type": "WordLevel", "vocab": {"user": 0, "hello": 1, "[UNK]": 2}, "unk_token": "[UNK]"},
    "pre_tokenizer": {"type": "Whitespace"},
    "added_tokens": [],
}


@pytest.mark.parametrize("place", ["", "_cache", "src/tokenizers"])
def test_a_file_is_used_where_the_bundled_vocabulary_only_stands_in(tmp_path: Path, place: str):
    pytest.importorskip("tokenizers")
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "claude.json").write_text(json.dumps(WORDS), "utf-8")
    counter = new_counter(counting_rule("claude", "claude-3"), TokenizerFiles(tmp_path), refuse)
    assert counter.vocabulary.exact
    assert counter.message("user", "hello hello") == 3


@pytest.mark.parametrize("place", ["", "_cache", "data/_cache"])
def test_a_compressed_file_is_unpacked(tmp_path: Path, place: str):
    """SillyTavern downloads files like this one, and unpacks them when they are first used."""
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    packed = folder / "command-r.json.gz"
    packed.write_bytes(gzip.compress(write_tokenizer(tmp_path / "t.json").read_bytes()))
    files = TokenizerFiles(tmp_path)
    counter = new_counter(counting_rule("cohere", "command-r-plus"), files, refuse)
    assert counter.vocabulary.exact
    assert counter.vocabulary.count("the hi") == 3  # "the", "Ġ" and "hi"
    encode = token_encoder("command-r", files)
    assert encode is not None
    assert encode("the hi") == [11, 1, 9]
    unpacked = write_tokenizer(folder / "command-r.json")
    assert files.find("command-r.json") == unpacked


def test_compressed_files_are_read_within_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = write_tokenizer(tmp_path / "t.json").read_bytes()
    packed = gzip.compress(content)
    monkeypatch.setattr(_file_tokenizer, "MAX_TOKENIZER_FILE_BYTES", len(content) + 1)
    told: list[str] = []
    bad = {
        "bomb": gzip.compress(content + b"  "),
        "cut": packed[:-20],
        "text": content,
        "bits": packed[:30] + b"\xff" * 99,
    }
    for name, data in bad.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "command-a.json.gz").write_bytes(data)
        assert not load_vocabulary("command-a", TokenizerFiles(tmp_path / name), told.append).exact
    assert len(told) == len(bad)
    assert "MAX_TOKENIZER_FILE_BYTES" in told[0]
    assert all("command-a.json.gz cannot be used" in each for each in told)


@pytest.mark.usefixtures("no_packages")
def test_a_file_that_cannot_be_read_is_reported_and_the_stand_in_counts(tmp_path: Path):
    (tmp_path / "claude.json").write_text("no JSON", "utf-8")
    told: list[str] = []
    vocabulary = load_vocabulary("claude", TokenizerFiles(tmp_path), told.append)
    assert not vocabulary.exact
    assert "claude.json cannot be used" in told[0]


def test_a_sentencepiece_file_is_used_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Processor:
        def __init__(self, model_file: str) -> None:
            if Path(model_file).read_bytes() != b"model":
                raise RuntimeError("not a model")

        def encode(self, text: str) -> list[int]:
            return [len(word) for word in text.split()]

    package = ModuleType("sentencepiece")
    monkeypatch.setattr(package, "SentencePieceProcessor", Processor, raising=False)
    monkeypatch.setitem(sys.modules, "sentencepiece", package)
    (tmp_path / "jamba.model").write_bytes(b"model")
    (tmp_path / "yi.model").write_bytes(b"broken")
    told: list[str] = []
    jamba = load_vocabulary("jamba", TokenizerFiles(tmp_path), told.append)
    assert (jamba.exact, jamba.count("two words"), told) == (True, 2, [])
    encode = token_encoder("jamba", TokenizerFiles(tmp_path))
    assert encode is not None
    assert encode("two words") == [3, 5]
    assert not load_vocabulary("yi", TokenizerFiles(tmp_path), told.append).exact
    assert "yi.model cannot be used" in told[0]


def test_a_sentencepiece_file_without_its_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    (tmp_path / "nerdstash.model").write_bytes(b"model")
    told: list[str] = []
    assert not load_vocabulary("nerdstash", TokenizerFiles(tmp_path), told.append).exact
    assert "nerdstash.model cannot be used" in told[0]


@pytest.mark.usefixtures("no_packages")
def test_token_ids_are_given_only_by_the_tokenizer_itself():
    encode = token_encoder("o200k_base", None)
    assert encode is not None
    assert encode(" ship") == [12407]
    assert token_encoder("claude", None) is None
    assert token_encoder("estimate", None) is None


@pytest.mark.usefixtures("no_packages")
def test_a_plan_says_when_a_tokenizer_stands_in():
    plan = build(preset=preset(chat_completion_source="claude", claude_model="claude-3"))
    assert "is used instead of claude" in plan.counting_note
    assert "is used instead of claude" in str(plan.explain())
    assert build().counting_note == ""


@pytest.mark.usefixtures("no_packages")
@pytest.mark.parametrize("source", sorted(NAMES))
def test_every_source_whose_tokenizer_is_missing_says_so(source: str):
    for pattern, name in NAMES[source]:
        model = pattern.replace("*", "").replace("?", "") or "model"
        family = family_name(name or model)
        note = build(
            preset=preset(chat_completion_source=source, **{MODEL_KEYS.get(source, f"{source}_model"): model})
        ).counting_note
        vocabulary = VOCABULARIES[vocabulary_of(family)]
        assert (f"{vocabulary.bundled} is used instead of" in note) is not vocabulary.exact, (model, note)


@pytest.mark.parametrize(
    ("model", "listed", "noted"),
    [
        ("meta-llama/llama-3.3-70b-instruct", None, True),
        ("meta-llama/llama-3.3-70b-instruct", "Llama3", False),
        ("meta-llama/llama-3.3-70b-instruct", "Grok", False),
        ("deepseek/deepseek-r1-distill-llama-70b", None, True),
        ("x-ai/grok-4", None, True),
        ("openai/gpt-4o", None, False),
        ("openai/gpt-oss-120b", None, False),
        ("OR_Website", None, False),
        ("", None, False),
    ],
)
def test_a_model_that_openrouters_list_does_not_name_is_noted(model: str, listed: str | None, *, noted: bool):
    chosen = preset(chat_completion_source="openrouter", openrouter_model=model)
    entries = [{"id": "other/model"}, *([{"id": model, "architecture": {"tokenizer": listed}}] if listed else [])]
    note = build(preset=chosen, model_list=entries).counting_note
    assert ("OpenRouter's list of models" in note) is noted
    if noted:
        assert model in note
        assert "20 %" in note


def test_two_reasons_for_wrong_counts_are_both_said():
    chosen = preset(chat_completion_source="openrouter", openrouter_model="ai21/jamba-large")
    note = build(preset=chosen).counting_note
    assert "llama2 is used instead of jamba" in note
    assert "OpenRouter's list of models" in note


@pytest.mark.parametrize(
    ("setting", "api", "kind", "model", "said"),
    [
        (99, "textgenerationwebui", "koboldcpp", "", "SillyTavern lets koboldcpp count"),
        (99, "textgenerationwebui", "ooba", "gemma-2", "gemma is used"),
        (6, "textgenerationwebui", "generic", "", "an estimate is used"),
        (99, "kobold", "", "", "SillyTavern lets kobold count"),
        (99, "textgenerationwebui", "openrouter", "a/command-r", "OpenRouter's list of models"),
        (99, "textgenerationwebui", "dreamgen", "lucid-v1-max", "counts with llama3"),
        (99, "textgenerationwebui", "generic", "gemma-2", ""),
        (3, "textgenerationwebui", "koboldcpp", "", ""),
        (99, "koboldhorde", "", "", ""),
        (99, "novel", "", "erato", ""),
    ],
)
def test_a_text_plan_says_if_the_backend_would_count(setting: int, api: str, kind: str, model: str, said: str):
    samplers = {"type": kind, "custom_model": model, f"{kind}_model": model}
    settings = Settings.from_json(
        {
            "main_api": api,
            "power_user": {"tokenizer": setting},
            "textgenerationwebui_settings": samplers,
            "nai_settings": {"model_novel": model},
        }
    )
    note = build(settings=settings, dialect="text").counting_note
    assert said in note
    assert bool(note) is bool(said)


def test_with_openrouters_list_a_text_plan_says_which_tokenizer_a_connection_has():
    samplers = {"type": "openrouter", "openrouter_model": "a/command"}
    settings = Settings.from_json({"main_api": "textgenerationwebui", "textgenerationwebui_settings": samplers})
    listed = [{"id": "a/command", "architecture": {"tokenizer": "Gemini"}}]
    note = build(settings=settings, dialect="text", model_list=listed).counting_note
    assert "SillyTavern counts with gemma while it is connected; llama is used" in note


def test_tokenizers_may_be_given_as_a_path(tmp_path: Path):
    pytest.importorskip("tokenizers")
    (tmp_path / "claude.json").write_text(json.dumps(WORDS), "utf-8")
    chosen = preset(chat_completion_source="claude", claude_model="claude-3")
    assert build(preset=chosen, tokenizers=str(tmp_path)).counting_note == ""


@pytest.mark.parametrize(
    ("backend", "number"),
    [
        (TextBackend(main_api="novel", model="kayra-v1"), 5),
        (TextBackend(main_api="novel", model="krake-v2"), 0),
        (TextBackend(main_api="kobold"), 3),
        (TextBackend(main_api="textgenerationwebui", type="ooba", model="Mistral-Nemo"), 7),
        (TextBackend(main_api="textgenerationwebui", type="ooba", online="gemma-2"), 13),
        (TextBackend(main_api="textgenerationwebui", type="huggingface", model="gemma"), 3),
        (TextBackend(main_api="textgenerationwebui", type="dreamgen", model="lucid-v1-max", online="x"), 12),
        (TextBackend(main_api="textgenerationwebui", type="tabby", model="x", online="x"), 9),
        (TextBackend(main_api="other"), 0),
    ],
)
def test_the_best_match_of_a_backend(backend: TextBackend, number: int):
    assert best_match(backend) == number
    assert chosen_tokenizer(BEST_MATCH, backend) == number


def test_a_remote_tokenizer_that_fails_is_not_asked_again():
    asked: list[str] = []

    def remote(text: str) -> int:
        asked.append(text)
        raise ConnectionError

    backend = TextBackend(main_api="textgenerationwebui", type="tabby", model="gemma", online="live")
    tokenizer = TextTokenizer(BEST_MATCH, backend, lambda name, _text: len(name), remote)
    assert [tokenizer.count("a"), tokenizer.count("b", 3)] == [len("gemma"), len("gemma") + 3]
    assert asked == ["a"]
    assert tokenizer.count("", 3) == 0


def test_builds_count_with_the_backends_own_tokenizer():
    backend = TextBackend(main_api="textgenerationwebui", type="tabby", online="live")
    tokenizer = TextTokenizer(BEST_MATCH, backend, remote=lambda text: 1000 + len(text))
    plan = build(dialect="text", token_estimator=tokenizer)
    assert plan.count_tokens is not None
    assert plan.count_tokens("abc") == 1003
    assert TextTokenizer(12, backend).estimate("灯塔已经亮了。") == bundled_counter("llama3")("灯塔已经亮了。")


def test_text_completion_counts_with_the_tokenizer_of_the_settings():
    def tokens(**power_user: object) -> int:
        settings = Settings.from_json({"main_api": "textgenerationwebui", "power_user": power_user})
        plan = build(dialect="text", settings=settings)
        assert plan.count_tokens is not None
        return plan.count_tokens("灯塔已经亮了。")

    assert tokens(tokenizer=0) == estimate("灯塔已经亮了。")
    assert tokens(tokenizer=12) == bundled_counter("llama3")("灯塔已经亮了。")
    assert tokens() == bundled_counter("llama")("灯塔已经亮了。")


def test_the_backend_is_read_from_the_settings():
    stored = {
        "main_api": "textgenerationwebui",
        "textgenerationwebui_settings": {"type": "vllm", "vllm_model": "qwen2"},
    }
    assert best_match(Settings.from_json(stored).text_backend) == 15
    novel = {"main_api": "novel", "nai_settings": {"model_novel": "llama-3-erato-v1"}}
    assert best_match(Settings.from_json(novel).text_backend) == 12
