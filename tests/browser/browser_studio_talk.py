"""Studio in a real browser: talking with the character. Run with ``make test-browser``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tavernkit.models import ScriptedModel
from tavernkit.models._scripted import Hang
from tavernkit.studio import Studio
from tavernkit.studio._app import open_studio, open_workspace
from tavernkit.studio._talk_models import ModelChoice
from tests.browser.studio_page import StudioPage, both, files_of

pytestmark = pytest.mark.browser


def script(page: StudioPage, *replies: str) -> None:
    """Say what the scripted model answers."""
    page.browser.run("document.querySelector('.script').open = true")
    page.browser.one(".script textarea").clear()
    page.browser.one(".script textarea").type("\n".join(replies))
    page.click_text(".script button", "Use it")
    page.wait_for_text(".notices", "in turn")


@both()
def test_talking_with_the_character(page: StudioPage) -> None:
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    script(page, "*She nods.* One.", "Two.", "Three.", "And more.", "What I would say.")
    page.write("Your message", "Tell me.")
    page.browser.keys("ctrl+enter")
    page.wait_for_text(".message:last-child .text", "*She nods.* One.")
    page.wait_for_text(".message.user .text", "Tell me.")
    page.browser.wait(lambda: page.browser.shown(".message:last-child button[aria-label='Next swipe']"))
    page.browser.one(".message:last-child button[aria-label='Next swipe']").click()
    page.wait_for_text(".message:last-child .text", "Two.")
    page.wait_for_text(".message:last-child .swipes", "2/2")
    page.browser.one(".message:last-child button[aria-label='Previous swipe']").click()
    page.wait_for_text(".message:last-child .text", "One.")
    page.click_text(".message:last-child footer button", "Regenerate")
    page.wait_for_text(".message:last-child .text", "Three.")
    page.wait_for("return document.querySelector('#send')")
    page.click_text(".message:last-child footer button", "Continue")
    page.wait_for_text(".message:last-child .text", "And more.")
    page.wait_for("return document.querySelector('#send')")
    page.browser.one("#impersonate").click()
    page.wait_for("return document.querySelector('#send')")
    page.browser.wait(lambda: "What I would say." in page.editor("Your message").text)
    page.click_text(".message:last-child footer button", "What the model saw")
    page.wait_for_text("dialog .block .text", "Tell me.")
    page.browser.keys("escape")
    page.wait_for("return !document.querySelector('dialog')")


def refuse(page: StudioPage, path: str) -> None:
    """Answer calls of a path with an error, as a service that is busy does."""
    page.browser.run(
        "const call = window.fetch;"
        "window.fetch = (to, how) => String(to).endsWith(arguments[0])"
        " ? Promise.resolve(Response.json({error: {message: 'Not now.'}}, {status: 409})) : call(to, how)",
        path,
    )


@both()
def test_a_message_that_is_refused_can_be_sent_again(page: StudioPage) -> None:
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    refuse(page, "/talk/turn")
    page.write("Your message", "Tell me.")
    page.browser.keys("ctrl+enter")
    page.wait_for_text(".problem", "Not now.")
    page.browser.wait(lambda: page.editor("Your message").text == "Tell me.")
    assert len(page.browser.all(".message")) == 5


@both()
def test_an_edited_line_that_is_refused_stays_open(page: StudioPage) -> None:
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    refuse(page, "/talk/change")
    page.browser.one("button[aria-label='Edit line 4']").click()
    page.write("Line of Ann", " Truly.")
    page.click_text(".message button", "Keep")
    page.wait_for_text(".notices", "Not now.")
    assert page.editor("Line of Ann").text.endswith(" Truly.")


@both()
def test_undo_in_a_field_of_no_document_is_the_fields_own(page: StudioPage) -> None:
    page.part("Description")
    page.write("Description", " She hums.")
    page.wait_for_prompt("She hums.")
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    page.write("Your message", "Tell me.")
    page.browser.keys("ctrl+z", "ctrl+z")
    page.browser.wait(lambda: page.editor("Your message").text in {"", "Your message. Ctrl+Enter sends it."})
    page.browser.keys("ctrl+shift+z")
    page.browser.wait(lambda: page.editor("Your message").text == "Tell me.")
    page.browser.one("summary").click()
    page.browser.one("textarea").type("One.")
    page.browser.keys("ctrl+z", "ctrl+z")
    page.browser.wait(lambda: not page.browser.run("return document.querySelector('textarea').value"))
    page.browser.run_async("setTimeout(arguments[0], 50)")
    assert page.browser.one("#undo").attribute("aria-disabled") == "false"
    page.part("Description")
    assert page.editor("Description").text.endswith("She hums.")


@both()
def test_an_undo_that_is_refused_is_not_called_done(page: StudioPage) -> None:
    page.part("Description")
    page.write("Description", " She hums.")
    page.wait_for_prompt("She hums.")
    refuse(page, "/undo")
    page.browser.one("#undo").click()
    page.wait_for_text(".notices", "Not now.")
    page.browser.run_async("setTimeout(arguments[0], 50)")
    assert "Undone" not in page.browser.one(".notices").text


def more(page: StudioPage, line: int, name: str) -> None:
    page.browser.one(f"summary[aria-label='More for line {line}']").click()
    page.click_text(f".message:nth-child({line}) .more button", name)


@both()
def test_lines_are_edited_hidden_deleted_and_branched(page: StudioPage) -> None:
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    page.browser.one("button[aria-label='Edit line 4']").click()
    page.write("Line of Ann", " Truly.")
    page.click_text(".message button", "Keep")
    page.wait_for_text(".message .text", "frozen? Truly.")
    more(page, 2, "Hide")
    page.wait_for("return document.querySelectorAll('.message.off').length === 1")
    more(page, 3, "Branch")
    page.wait_for("return document.querySelectorAll('.message').length === 3")
    more(page, 3, "Delete")
    page.wait_for("return document.querySelectorAll('.message').length === 2")


def slow_model(folder: Path) -> Studio:
    """A model that begins to answer and never ends."""
    choice = ModelChoice(id="slow", label="Slow", make=lambda: ScriptedModel(Hang(after=("Well,", " let me think"))))
    return open_studio(files_of(folder), models=[choice])


@both(slow_model)
def test_a_reply_streams_in_and_stop_keeps_what_has_come(page: StudioPage) -> None:
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    page.write("Your message", "Tell me.")
    page.browser.keys("ctrl+enter")
    page.wait_for_text(".message.coming .text", "Well, let me think")
    assert page.browser.one(".message.user:nth-last-child(2) .text").text == "Tell me."
    # Nothing else can be done to the chat meanwhile.
    assert not page.browser.all(".message footer button")
    # Other views can, and the reply goes on coming.
    page.write("Your message", "And then?")
    page.part("Description")
    page.write("Description", " She hums.")
    page.wait_for_prompt("She hums.")
    page.go("Talk")
    page.wait_for_text(".message.coming .text", "Well, let me think")
    assert page.editor("Your message").text == "And then?"
    page.browser.one("#stop").click()
    page.wait_for("return document.querySelector('#send') && !document.querySelector('.message.coming')")
    page.wait_for_text(".message:last-child .text", "Well, let me think")
    assert not page.browser.all(".problem")
    # The newest line is in sight.
    bottom = "return arguments[0].getBoundingClientRect().bottom"
    last, chat = (page.browser.one(each).reference for each in (".message:last-child", ".messages"))
    assert page.browser.run(bottom, last) <= page.browser.run(bottom, chat)
    page.wait_for_prompt("She hums.")
    page.go("Talk")
    page.click_text(".composer button", "Undo the last turn")
    page.wait_for("return document.querySelectorAll('.message').length === 5")


@both()
def test_what_the_model_saw_leads_to_where_it_was_written(page: StudioPage) -> None:
    for platform in ("SillyTavern", "RisuAI"):
        page.go("Prompt")
        page.choose("#platform", platform)
        page.go("Talk")
        page.wait_for("return document.querySelectorAll('.message[data-index]').length >= 5")
        page.write("Your message", f"Is this {platform}?")
        page.browser.keys("ctrl+enter")
        page.wait_for_text(".message.user .text", f"Is this {platform}?")
        page.browser.wait(lambda: page.browser.all(".message:last-child .seen"))
        page.click_text(".message:last-child footer button", "What the model saw")
        page.wait_for_text("dialog .words", "Forty, weathered")
        words = page.named("dialog .words", "Forty, weathered")
        page.browser.run("arguments[0].scrollIntoView({block: 'center'})", words.reference)
        page.browser.point(words)
        page.wait_for_text("dialog #origin", "description")
        words.click()
        page.wait_for("return document.activeElement?.classList.contains('editor')")
        assert page.selected().startswith("Forty, weathered")
        # The other program's copy of the chat is edited like any other.
        page.part("Lines")
        page.wait_for("return document.querySelectorAll('.line').length >= 7")


@both()
def test_lines_are_deleted_from_one_on_and_another_greeting_is_chosen(page: StudioPage) -> None:
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    more(page, 3, "Delete from line")
    page.wait_for("return document.querySelectorAll('.message').length === 2")
    more(page, 1, "Delete from line")
    # A chat without lines begins with a greeting.
    page.wait_for("return document.querySelectorAll('.message').length === 1 && document.querySelector('#greeting')")
    first = page.browser.one(".message .text").text
    page.browser.run(
        "const select = document.querySelector('#greeting'); select.selectedIndex = 1;"
        "select.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    page.wait_for("return document.querySelector('.message .text').textContent !== arguments[0]", first)
    second = page.browser.one(".message .text").text
    page.wait_for_prompt(second[:40])
    page.browser.keys("ctrl+z")
    page.go("Talk")
    page.wait_for("return document.querySelector('.message .text')?.textContent.startsWith(arguments[0])", first[:40])
    # RisuAI's greeting stands before the lines, and can be chosen at any time.
    page.go("Prompt")
    page.choose("#platform", "RisuAI")
    page.go("Talk")
    page.wait_for_text(".message.greeting .text", first[:20])


def roll(sides: int) -> int:
    """Roll a die."""
    return sides


def group_with_tools(folder: Path) -> Studio:
    """The example, a second character to open, and a tool."""
    other = json.loads((folder / "aria.json").read_text(encoding="utf-8"))
    other["data"]["name"] = "Luna"
    (folder / "luna.json").write_text(json.dumps(other), encoding="utf-8")
    return Studio(open_workspace(files_of(folder)), tools=[roll])


@both(group_with_tools)
def test_a_group_talks_in_rounds_and_uses_tools(page: StudioPage) -> None:
    page.open_file(page.folder / "luna.json")
    page.part("Next turn")
    for name in ("Aria", "Luna"):
        page.click_text("fieldset .check", name)
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.speak').length === 2")
    script(page, '!roll {"sides": 6}', "A six, says one.", "So it is.", "Indeed.")
    page.click_text(".speak", "Luna speaks")
    page.wait_for_text(".message:last-child .text", "A six, says one.")
    page.wait_for_text(".message:last-child header", "Luna")
    page.wait_for_text(".tool", "roll")
    page.wait_for("return document.querySelector('#send')")
    # Whoever is named answers: a round of two.
    page.write("Your message", "Aria? Luna?")
    page.browser.keys("ctrl+enter")
    page.wait_for_text(".message .text", "So it is.")
    page.wait_for_text(".message:last-child .text", "Indeed.")
    page.wait_for("return document.querySelector('#send')")
    names = page.browser.run("return [...document.querySelectorAll('.message header strong')].map(e => e.textContent)")
    assert sorted(names[-2:]) == ["Aria", "Luna"]


def group_with_a_slow_model(folder: Path) -> Studio:
    """A group in which the second to speak never ends."""
    group_with_tools(folder)
    model = ScriptedModel("So it is.", Hang(after=("Well,", " let me think")))
    choice = ModelChoice(id="slow", label="Slow", make=lambda: model)
    return open_studio(files_of(folder), models=[choice])


@both(group_with_a_slow_model)
def test_the_replies_of_a_round_stream_in_one_after_the_other(page: StudioPage) -> None:
    page.open_file(page.folder / "luna.json")
    page.part("Next turn")
    for name in ("Aria", "Luna"):
        page.click_text("fieldset .check", name)
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.speak').length === 2")
    page.write("Your message", "Aria? Luna?")
    page.browser.keys("ctrl+enter")
    page.wait_for_text(".message.coming .text", "let me think")
    texts = "return [...document.querySelectorAll('.message.coming .text')].map(e => e.textContent)"
    assert page.browser.run(texts) == ["So it is.", "Well, let me think"]
    page.browser.one("#stop").click()
    page.wait_for("return document.querySelector('#send') && !document.querySelector('.message.coming')")
    shown = "return [...document.querySelectorAll('.message')].slice(-2).map(e => e.querySelector('.text').textContent)"
    assert page.browser.run(shown) == ["So it is.", "Well, let me think"]
