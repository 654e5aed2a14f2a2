from __future__ import annotations

import json

import pytest

from tavernkit.budget import apply, trim
from tavernkit.errors import ConfigError, MaxTokensExceededError
from tavernkit.prompt._block import Block
from tests.budget.estimators import CHARACTERS


def block(name: str, size: int = 10, group: str = "history", **fields: object) -> Block:
    return Block(**{"id": name, "role": "assistant", "content": "x" * size, "token_budget_group": group, **fields})  # pyright: ignore[reportArgumentType]


def ids(blocks: object) -> list[str]:
    return [each.id for each in blocks]  # pyright: ignore[reportGeneralTypeIssues]


def test_a_bundle_across_groups_goes_with_the_first_group_that_is_emptied() -> None:
    blocks = [
        block("lore", group="lore"),
        block("h", group="history", metadata={"eviction_bundle": "b"}),
        block("ex", group="examples", metadata={"eviction_bundle": "b"}),
        block("last", role="user"),
    ]
    result = trim(blocks, budget_tokens=20, token_estimator=CHARACTERS)
    assert ids(result.evicted) == ["h", "ex"]
    assert [record.reason for record in result.report.evictions] == ["group_overflow"] * 2
    assert [record.budget_group for record in result.report.evictions] == ["history", "examples"]


def test_a_bundle_with_one_protected_member_stays_whole() -> None:
    blocks = [
        block("ex", group="examples", metadata={"eviction_bundle": "b"}),
        block("sys", group="system", metadata={"eviction_bundle": "b"}),
        block("h"),
    ]
    result = trim(blocks, budget_tokens=20, token_estimator=CHARACTERS)
    assert ids(result.kept) == ["ex", "sys"]


@pytest.mark.parametrize("bundle", ["", 0, False, ["a"], {"id": 1}])
def test_any_value_but_nothing_makes_a_bundle(bundle: object) -> None:
    blocks = [
        block("a", metadata={"eviction_bundle": bundle}),
        block("b"),
        block("c", metadata={"eviction_bundle": bundle}),
    ]
    result = trim(blocks, budget_tokens=20, token_estimator=CHARACTERS)
    assert ids(result.evicted) == ["a", "c"]


def test_bundles_of_different_types_are_different() -> None:
    blocks = [block("a", metadata={"eviction_bundle": 1}), block("b", metadata={"eviction_bundle": "1"})]
    assert ids(trim(blocks, budget_tokens=10, token_estimator=CHARACTERS).evicted) == ["a"]


def test_priority_takes_the_lowest_member_of_a_bundle() -> None:
    blocks = [
        block("a", priority=50),
        block("b", priority=90, metadata={"eviction_bundle": "x"}),
        block("c", priority=10, metadata={"eviction_bundle": "x"}),
    ]
    result = trim(blocks, strategy="priority", budget_tokens=10, token_estimator=CHARACTERS)
    assert ids(result.evicted) == ["b", "c"]
    assert [(record.priority, record.reason) for record in result.report.evictions] == [
        (90, "priority_cutoff"),
        (10, "priority_cutoff"),
    ]


def test_evictions_are_reported_in_the_order_they_happened_and_listed_in_block_order() -> None:
    blocks = [block("h1"), block("l1", group="lore"), block("e1", group="examples"), block("u", role="user")]
    result = trim(blocks, budget_tokens=10, token_estimator=CHARACTERS)
    assert [record.block_id for record in result.report.evictions] == ["e1", "l1", "h1"]
    assert ids(result.evicted) == ["h1", "l1", "e1"]


def test_the_error_carries_the_numbers_and_the_partial_result() -> None:
    blocks = [block("sys", 50, group="system"), block("h", 5)]
    with pytest.raises(MaxTokensExceededError) as caught:
        trim(blocks, max_tokens=60, reserve_tokens=30, token_estimator=CHARACTERS)
    error = caught.value
    assert (error.estimated_tokens, error.max_tokens, error.reserve_tokens, error.limit_tokens) == (50, 60, 30, 30)
    assert error.stage == "trimming"
    assert ids(error.partial.evicted) == ["h"]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"budget_tokens": 20, "reserve_tokens": 5}, 25),
        ({"max_tokens": 10, "reserve_tokens": 30}, 10),
        ({"budget_tokens": 20, "max_tokens": 40, "reserve_tokens": 5}, 40),
    ],
)
def test_the_error_tells_the_size_of_the_context(given: dict[str, int], told: int) -> None:
    with pytest.raises(MaxTokensExceededError) as caught:
        trim([block("sys", 50, group="system")], token_estimator=CHARACTERS, **given)  # pyright: ignore[reportArgumentType]
    assert caught.value.max_tokens == told


def test_fits_tells_about_the_result_and_over_budget_about_the_input() -> None:
    result = trim([block("s", 50, group="system")], budget_tokens=10, token_estimator=CHARACTERS, on_overflow="return")
    assert (result.report.over_budget, result.report.fits) == (True, False)
    result = trim([block("h", 50)], budget_tokens=10, token_estimator=CHARACTERS)
    assert (result.report.over_budget, result.report.fits) == (True, True)


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        trim([], budget_tokens=-1)
    assert caught.value.code == "NEGATIVE_BUDGET"


def test_apply_leaves_disabled_blocks_alone_and_keeps_the_order() -> None:
    blocks = [block("off", enabled=False), block("a"), block("b", role="user")]
    result = trim(blocks, budget_tokens=10, token_estimator=CHARACTERS)
    applied = apply(blocks, result)
    assert ids(applied) == ["off", "a", "b"]
    assert [each.enabled for each in applied] == [False, False, True]
    assert applied[0] is blocks[0]
    assert applied[2] is blocks[2]


def test_apply_tells_blocks_of_one_id_apart_by_whether_they_are_switched_on() -> None:
    blocks = [block("a", enabled=False, content="other"), block("a"), block("b", role="user")]
    result = trim(blocks, budget_tokens=10, token_estimator=CHARACTERS)
    assert apply(blocks, result)[0] is blocks[0]


def test_apply_keeps_what_became_of_a_block_since() -> None:
    blocks = [block("a"), block("b", role="user")]
    result = trim(blocks, budget_tokens=10, token_estimator=CHARACTERS)
    changed = [blocks[0], blocks[1].replace(content="new")]
    assert apply(changed, result)[1].content == "new"


def test_the_default_estimator_counts_for_the_models_tokenizer() -> None:
    blocks = [block("a", content="hello world"), block("b", content="hello world", role="user")]
    result = trim(blocks, budget_tokens=2, model_hint="gpt-4")
    assert (result.report.initial_tokens, result.report.final_tokens) == (4, 2)


class TestShorten:
    def test_the_block_at_the_edge_may_be_cut_instead_of_left_out(self) -> None:
        asked: list[tuple[str, int]] = []

        def cut(each: Block, tokens: int) -> Block:
            asked.append((each.id, tokens))
            return each.replace(content=each.content[:tokens])

        blocks = [block("a"), block("b"), block("c", role="user")]
        result = trim(blocks, budget_tokens=15, token_estimator=CHARACTERS, shorten=cut)
        assert asked == [("b", 5)]
        assert ids(result.evicted) == ["a"]
        assert [len(each.content) for each in result.kept] == [5, 10]
        assert result.report.final_tokens == 15
        record = result.report.shortened[0]
        assert (record.block_id, record.tokens_before, record.tokens_after) == ("b", 10, 5)
        assert [(each.id, each.enabled, len(each.content)) for each in apply(blocks, result)] == [
            ("a", False, 10),
            ("b", True, 5),
            ("c", True, 10),
        ]

    @pytest.mark.parametrize("answer", [None, "x" * 9])
    def test_a_shortener_that_does_not_help_changes_nothing(self, answer: str | None) -> None:
        blocks = [block("a"), block("b", role="user")]
        result = trim(
            blocks,
            budget_tokens=15,
            token_estimator=CHARACTERS,
            shorten=lambda each, tokens: None if answer is None else each.replace(content=answer),
        )
        assert ids(result.evicted) == ["a"]
        assert result.report.shortened == ()

    @pytest.mark.parametrize(("budget", "asked"), [(10, []), (11, [1])])
    def test_a_shortener_is_asked_only_where_something_can_stay(self, budget: int, asked: list[int]) -> None:
        rooms: list[int] = []

        def cut(each: Block, tokens: int) -> None:
            rooms.append(tokens)

        blocks = [block("a"), block("b", role="user")]
        trim(blocks, budget_tokens=budget, token_estimator=CHARACTERS, shorten=cut)
        assert rooms == asked

    def test_overhead_and_bundles_are_respected(self) -> None:
        def cut(each: Block, tokens: int) -> Block:
            return each.replace(content=each.content[:tokens])

        options = {"token_estimator": CHARACTERS, "shorten": cut}
        blocks = [block("a"), block("b", role="user")]
        result = trim(blocks, budget_tokens=21, message_overhead_tokens=3, **options)
        assert len(result.kept[0].content) == 5
        assert result.report.final_tokens == 21
        bundle = [block("a", metadata={"eviction_bundle": 1}), block("b", metadata={"eviction_bundle": 1})]
        assert ids(trim(bundle, budget_tokens=15, **options).evicted) == ["a", "b"]


def test_a_report_can_be_written_as_json() -> None:
    blocks = [block("a", metadata={"source": {"stage": "history", "tags": ["x"]}}), block("b", role="user")]
    report = trim(blocks, budget_tokens=10, token_estimator=CHARACTERS).report
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["evictions"][0]["source"] == {"stage": "history", "tags": ["x"]}
    assert plain["fits"] is True
    assert plain["tokens_saved"] == 10


def test_metadata_is_counted_as_compact_json_without_escapes() -> None:
    metadata = {"tool_call_id": "é", "n": [1, 2]}
    blocks = [block("a", 1, message_metadata=metadata)]
    result = trim(blocks, budget_tokens=99, token_estimator=CHARACTERS, include_message_metadata_tokens=True)
    assert result.report.initial_tokens == 1 + len('{"tool_call_id":"é","n":[1,2]}')
