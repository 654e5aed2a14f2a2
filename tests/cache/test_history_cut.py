"""Where a history is cut: in large steps, never below half, as cheaply as the profile allows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tavernkit.cache import PROFILES
from tavernkit.cache._history_cut import CutCosts, HistoryUnit, first_kept, price_of_keeping


def units(count: int, tokens: int = 100) -> list[HistoryUnit]:
    return [HistoryUnit(tokens, by_user=number % 2 == 0) for number in range(count)]


def costs(room: int, **changes: object) -> CutCosts:
    return CutCosts(**{"profile": PROFILES["anthropic"], "room": room, "head": 500, **changes})  # pyright: ignore[reportArgumentType]


def test_nothing_is_cut_while_everything_fits() -> None:
    assert first_kept(units(9), costs(900)) == 0
    assert first_kept([], costs(900)) == 0


def test_the_newest_message_must_fit() -> None:
    assert first_kept([*units(2), HistoryUnit(1000, by_user=True)], costs(900)) is None


def test_a_cut_stays_for_many_turns() -> None:
    starts = [first_kept(units(count), costs(1000)) for count in range(1, 60, 2)]
    assert starts[0] == 0
    assert starts == sorted(starts, key=lambda start: start or 0)
    assert len(set(starts)) <= len(starts) / 2


def test_a_stored_cut_gives_the_same_prompts_as_none() -> None:
    stored: int | None = None
    for count in range(1, 80, 2):
        start = first_kept(units(count), costs(1000), stored)
        assert start == first_kept(units(count), costs(1000))
        stored = start


def test_a_stored_cut_is_forgotten_when_it_would_keep_less_than_half() -> None:
    assert first_kept(units(20), costs(2000), stored=18) == 0  # the context was made larger
    assert first_kept(units(20), costs(2000), stored=5) == 5


def test_lore_that_is_called_up_now_needs_room_when_its_line_goes() -> None:
    history = [HistoryUnit(100, lore=300, needed=300, by_user=True), *units(9)]
    start = first_kept(history, costs(1000))
    assert start is not None
    assert sum(unit.tokens for unit in history[start:]) + 300 <= 1000


def test_few_expected_turns_keep_more_history() -> None:
    many, few = (first_kept(units(31), costs(3000, tail=200, turns=turns)) for turns in (100, 2))
    assert many is not None
    assert few is not None
    assert few < many


def test_the_price_depends_on_the_profile() -> None:
    given_costs = {name: costs(3000, profile=PROFILES[name], tail=100) for name in ("anthropic", "llama_cpp")}
    prices = {name: price_of_keeping(1500, 200, 50, each) for name, each in given_costs.items()}
    assert prices["anthropic"] > prices["llama_cpp"] > 0
    assert price_of_keeping(2900, 200, 50, given_costs["anthropic"]) > prices["anthropic"]


history = st.lists(
    st.builds(HistoryUnit, st.integers(1, 300), st.integers(0, 50), st.just(0), st.booleans()), min_size=1, max_size=40
)


@given(history, st.integers(1, 2000), st.sampled_from(sorted(PROFILES)), st.one_of(st.none(), st.integers(0, 60)))
def test_half_of_what_would_fit_is_always_kept(
    chat: list[HistoryUnit], room: int, profile: str, stored: int | None
) -> None:
    start = first_kept(chat, costs(room, profile=PROFILES[profile]), stored)
    sizes = [unit.tokens for unit in chat]
    if start is None:
        assert chat[-1].tokens + chat[-1].lore > room
        return
    would_fit = next(place for place in range(len(chat)) if sum(sizes[place:]) <= room)
    assert len(chat) - start >= (len(chat) - would_fit) / 2
    assert sum(sizes[start:]) >= sum(sizes[would_fit:]) / 2
    assert sum(sizes[start:]) <= room
