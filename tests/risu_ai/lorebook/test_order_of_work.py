"""One entry that cannot be placed, or one line that says nothing, does not end the work on the others."""

from __future__ import annotations

from tavernkit.risu_ai._lorebook import LorebookEngine, LorebookEntry, LorebookResult, LoreMessage, ScanInput


def scan(entries: list[LorebookEntry], *texts: str) -> LorebookResult:
    messages = [LoreMessage("user", text) for text in texts]
    return LorebookEngine().scan(ScanInput(entries=entries, messages=messages))


def test_lore_without_a_target_does_not_keep_other_lore_from_its_own() -> None:
    entries = [
        LorebookEntry(always_active=True, comment="Town", content="A town.", order=1),
        LorebookEntry(always_active=True, content="@@inject_lore Nowhere\nLost.", order=9),
        LorebookEntry(always_active=True, content="@@inject_lore Town\nIts harbour.", order=5),
    ]
    result = scan(entries)
    assert [each.text for each in result.actives] == ["A town. Its harbour."]
    assert result.explain(1).reason == "injects into 'Nowhere', which is not active"


def test_a_decorator_without_a_name_is_skipped() -> None:
    (active,) = scan([LorebookEntry(always_active=True, content="@@\n@@depth 2\nDeep.")]).actives
    assert (active.text, active.pos, active.depth) == ("Deep.", "depth", 2)


def test_an_entry_called_up_twice_in_a_pass_is_looked_at_once() -> None:
    entries = [
        LorebookEntry(always_active=True, content="the dragon"),
        LorebookEntry(always_active=True, content="a dragon"),
        LorebookEntry(key="dragon", secondary_key="ice", selective=True),
    ]
    assert [hit.key for hit in scan(entries, "hello").hits] == ["dragon"] * 2  # once in each of two passes


def test_a_child_is_recognised_by_what_it_took_from_its_parent() -> None:
    entries = [
        LorebookEntry(id="x", key="never", comment="Parent", content="The parent's text."),
        LorebookEntry(id="x", mode="child", key="dragon", comment="Child", content="Its own."),
    ]
    result = scan(entries, "dragon")
    assert [each.text for each in result.actives] == ["The parent's text."]
    assert (result.entries[1].comment, result.explain(1).title) == ("Parent", "Parent")


def test_an_entry_that_comes_only_once_says_that_it_was_there_before() -> None:
    entries = [LorebookEntry(always_active=True, content="@@dont_activate_after_match\nOnce.", id="x")]
    first = scan(entries)
    assert [each.text for each in first.actives] == ["Once."]
    given = ScanInput(entries=entries, chat_variable=lambda name: first.markers.get(name, "null"))
    again = LorebookEngine().scan(given)
    assert again.actives == ()
    assert again.explain(0).reason == "it was active before (@@dont_activate_after_match)"
