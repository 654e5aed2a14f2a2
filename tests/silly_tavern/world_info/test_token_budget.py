from tavernkit.silly_tavern._world_info import WorldInfoSettings
from tavernkit.silly_tavern._world_info.selection import TokenBudget, token_limit


def test_limit_is_rounded_half_up_and_at_least_one() -> None:
    assert token_limit(WorldInfoSettings(budget=25), 10) == 3
    assert token_limit(WorldInfoSettings(budget=0), 10) == 1
    assert token_limit(WorldInfoSettings(budget=50, budget_cap=3), 10) == 3
    assert token_limit(WorldInfoSettings(budget=50, budget_cap=30), 10) == 5


class Counting:
    def __init__(self, tokens_per_character: float) -> None:
        self.calls = 0
        self._rate = tokens_per_character

    def __call__(self, text: str) -> int:
        self.calls += 1
        return int(len(text) * self._rate)


def reach(budget: TokenBudget, text: str) -> int:
    """How many texts fit."""
    budget.begin_pass("")
    for number in range(10_000):
        budget.add(text)
        if budget.is_exceeded():
            return number
    raise AssertionError("the limit is never reached")


def test_counting_is_put_off_while_there_is_room() -> None:
    count = Counting(0.25)
    assert reach(TokenBudget(10_000, count), "x" * 40) == 999
    assert count.calls < 100


def test_a_counter_that_counts_more_than_one_token_a_byte_is_asked_every_time() -> None:
    count = Counting(20)
    assert reach(TokenBudget(100_000, count), "x" * 40) == 124
    assert count.calls == 125


def test_what_the_last_entry_needed_and_what_was_left() -> None:
    budget = TokenBudget(10, len)
    budget.begin_pass("abc")
    budget.add("1234")
    assert not budget.is_exceeded()
    budget.add("56789")
    assert budget.is_exceeded()
    assert budget.last_entry() == (5, 3)
