from __future__ import annotations

import pytest

from tavernkit.silly_tavern.chat_completion.token_counting import CountingRule, MessageCounter, counting_rule

CL100K = MessageCounter(CountingRule("cl100k_base"))


def test_a_message_costs_four_and_its_texts():
    assert CL100K.message("user", "hello") == 4 + 1 + 1


def test_a_name_costs_its_tokens_and_one():
    assert CL100K.message("user", "hello", "Mira") == CL100K.message("user", "hello") + CL100K.text("Mira") + 1


def test_counting_stops_at_a_special_token():
    assert CL100K.message("user", "a <|endoftext|> b", "Mira") == 5
    assert CL100K.message("user", "a", "<|endoftext|>") == CL100K.message("user", "a")
    assert CL100K.texts(["assistant", "<|endoftext|>", "more"]) == 5


def test_the_oldest_model_counts_differently():
    counter = MessageCounter(counting_rule("openai", "gpt-3.5-turbo-0301"))
    assert counter.message("user", "hello") == 14 + 1 + 1
    assert counter.message("user", "hello", "Mira") == 14 + 1 + 1 + counter.text("Mira") - 1


@pytest.mark.parametrize(
    ("source", "model", "tokenizer"),
    [
        ("openai", "gpt-4", "cl100k_base"),
        ("openai", "gpt-4o-mini", "o200k_base"),
        ("openai", "gpt-4.1", "o200k_base"),
        ("openai", "o1", "o200k_base"),
        ("openai", "o1-pro", "cl100k_base"),
        ("openai", "o3", "o200k_base"),
        ("openai", "gpt-5.6-terra", "o200k_base"),
        ("openai", "something-new", "cl100k_base"),
        ("custom", "deepseek-chat", "deepseek_v3"),
        ("custom", "my-llama3-tune", "llama3"),
        ("deepseek", "anything", "deepseek_v3"),
        ("openrouter", "openai/gpt-4o", "cl100k_base"),
        ("mistralai", "mistral-large", "cl100k_base"),
    ],
)
def test_the_tokenizer_follows_source_and_model(source: str, model: str, tokenizer: str):
    assert counting_rule(source, model).tokenizer == tokenizer


def test_long_texts_are_counted_and_remembered_without_being_kept():
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    counter = MessageCounter(CountingRule("cl100k_base"), count=count)
    assert [counter.text("x" * 10_000), counter.text("x" * 10_000)] == [10_000, 10_000]
    assert len(counted) == 1
