"""Studio in a real browser: the prompt and the editor, as people use them. Run with ``make test-browser``."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from PIL import Image

from tavernkit.cards import load, save
from tavernkit.studio import Studio
from tavernkit.studio._app import open_studio
from tavernkit.studio._studio import DIALECTS
from tests.browser.studio_page import DESK, PHONE, StudioPage, both, files_of, order, serving
from tests.browser.webdriver import Browser

pytestmark = pytest.mark.browser

HOSTILE = "</p><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">{{char}}"


# ----------------------------------------------------------------------------------------------------------------------
# The prompt


@both()
def test_blocks_are_coloured_by_source_and_counted(page: StudioPage) -> None:
    browser = page.browser
    assert len(browser.all(".block")) > 10
    colours = {
        browser.run(f"return getComputedStyle(document.querySelector('.block.f-{name}')).borderLeftColor")
        for name in ("preset", "lore", "card", "history")
    }
    assert len(colours) == 4
    assert "tokens" in browser.one(".budget").text
    assert browser.one(".block .source").text == "preset prompt Main Prompt"
    assert browser.run("return location.hash + location.search") in {"", "#/write", "#/prompt"}


@both()
def test_a_sentence_says_where_it_came_from_and_opens_there(page: StudioPage) -> None:
    words = page.named(".words", "Forty, weathered")
    page.browser.run("arguments[0].scrollIntoView({block: 'center'})", words.reference)
    page.browser.point(words)
    page.wait_for_text("#origin", "word for word")
    assert "Aria" in page.browser.one("#origin").text
    assert page.browser.one("#origin mark").text.startswith("Forty, weathered")
    text = words.text.strip()
    words.click()
    page.wait_for("return document.activeElement?.classList.contains('editor')")
    assert page.selected().strip() == text


@both()
def test_a_tap_shows_the_source_and_its_button_opens_it(page: StudioPage) -> None:
    words = page.named(".words", "ninety steps high")
    page.browser.run("arguments[0].scrollIntoView({block: 'center'})", words.reference)
    page.browser.point(words, "touch", press=True)
    page.wait_for_text("#origin", "Tidewatch stands on")
    page.click_text("#origin button", "Open in the editor")
    page.wait_for("return document.activeElement?.classList.contains('editor')")
    assert page.selected().startswith("Tidewatch stands on")
    chosen = page.browser.one("[aria-current=true]" if page.wide else "#part option:checked").text
    assert "tidewatch" in chosen


@both()
def test_sentences_are_reached_with_the_keyboard_alone(page: StudioPage) -> None:
    page.browser.run("document.querySelector('#prompt-panel').focus()")
    page.browser.keys("tab")
    while "Forty" not in (focused := page.browser.run("return document.activeElement.textContent")):
        page.browser.keys("right")
    described = page.browser.run("return document.activeElement.getAttribute('aria-description')")
    assert described == "from Aria description, word for word"
    assert "Forty" in page.browser.one("#origin").text
    page.browser.keys("enter")
    page.wait_for("return document.activeElement?.classList.contains('editor')")
    assert page.selected().strip() == focused.strip()


@both()
def test_the_prompt_follows_a_keystroke(page: StudioPage) -> None:
    page.part("Description")
    assert page.quickest("Description", 150) <= 150
    page.wait_for_prompt("most people.c")
    assert page.browser.one("#latency").attribute("data-ms")
    page.tab("changes")
    assert page.browser.all(".change.changed ins")


@pytest.fixture
def large_book(folder: Path) -> None:
    book = json.loads((folder / "tidewatch.json").read_text(encoding="utf-8"))
    for number in range(100, 10_100):
        more = {
            "uid": number,
            "key": [f"word{number}"],
            "comment": f"Entry {number}",
            "content": f"Of word{number}. " * 9,
        }
        book["entries"][str(number)] = book["entries"]["1"] | more
    (folder / "tidewatch.json").write_text(json.dumps(book), encoding="utf-8")


@both()
def test_the_prompt_follows_in_a_book_of_10_000_entries(large_book: None, page: StudioPage) -> None:
    page.part("tidewatch")
    assert len(page.browser.all(".entry")) < 40
    assert page.quickest("Content", 300) <= 300
    page.browser.one("input[type=search]").type("Entry 7777")
    page.wait_for("return document.querySelectorAll('.entry').length === 1")


@both()
def test_the_details_of_a_prompt(page: StudioPage) -> None:
    browser = page.browser
    page.tab("tokens")
    assert "description" in browser.one(".tokens").text.lower()
    page.tab("lore")
    assert "key 'lamp'" in browser.one(".lore-rows").text
    assert browser.all(".lore-rows .in")
    assert browser.all(".lore-rows .out")
    page.tab("out")
    assert browser.one("#prompt-panel").text
    page.tab("payload")
    page.wait_for_text("#payload-text", '"messages"')
    openai = json.loads(browser.run("return document.querySelector('#payload-text').textContent"))
    assert openai["messages"][0]["role"] == "system"
    parts = {"anthropic": "system", "google": "contents", "cohere": "chat_history", "text": "prompt"}
    for dialect in DIALECTS[1:]:
        page.choose("#payload-dialect", dialect)
        page.wait_for("return document.querySelector('#payload-text').dataset.dialect === arguments[0]", dialect)
        body = json.loads(browser.run("return document.querySelector('#payload-text').textContent"))
        assert parts.get(dialect, "messages") in body, dialect
    page.tab("cache")
    page.wait_for_text(".cache", "reused")
    assert len(browser.all(".cache .bar span")) > 3
    page.wait_for_text(".cache .broken", "Broken by World Info")
    page.tab("checks")
    page.wait_for("return document.querySelector('.findings') || /No problems found/.test(document.body.innerText)")


@both()
def test_what_does_not_fit_is_said(page: StudioPage) -> None:
    page.part("Next turn")
    field = page.browser.one("input[data-pointer='/context_length']")
    field.type("900")
    page.go("Prompt")
    page.wait_for("return Number(document.querySelector('[data-tab=out] small')?.textContent) > 0")
    page.tab("out")
    page.wait_for_text(".left-out", "budget")


@both()
def test_the_next_message_and_the_kind_of_turn(page: StudioPage) -> None:
    page.browser.one("#next-message").clear()
    page.browser.one("#next-message").type("Show me the storm glass.")
    page.wait_for_prompt("Show me the storm glass.")
    page.choose("#generation-type", "impersonate")
    page.wait_for_prompt("in Ann's voice")
    page.choose("#generation-type", "normal")
    page.choose("#dialect", "text")
    page.wait_for_text(".stops", "Ann:")
    page.choose("#dialect", "openai")
    page.choose("#platform", "RisuAI")
    page.wait_for("return document.querySelectorAll('.block').length > 5 && !document.querySelector('.problem')")
    page.wait_for_prompt("Show me the storm glass.")


# ----------------------------------------------------------------------------------------------------------------------
# Edit, undo, save


@both()
def test_undo_and_redo_by_keyboard(page: StudioPage) -> None:
    page.part("Description")
    page.write("Description", " She hums.")
    page.wait_for_prompt("She hums.")
    page.browser.keys("ctrl+z")
    page.wait_for_prompt("She hums.", there=False)
    page.wait_for_text(".notices", "Undone")
    page.browser.keys("ctrl+shift+z")
    page.wait_for_prompt("She hums.")
    page.part("Description")
    assert page.editor("Description").text.endswith("She hums.")
    page.browser.one("#undo").click()
    page.wait_for_prompt("She hums.", there=False)


@both()
def test_a_number_stays_as_it_is_typed(page: StudioPage) -> None:
    page.part("Settings")
    page.wait_for("return document.querySelector('[data-pointer=\"/temperature\"]')")
    field = page.browser.one("[data-pointer='/temperature']")
    value = "return document.querySelector('[data-pointer=\"/temperature\"]').value"
    field.click()
    page.browser.keys("ctrl+a", *"0.75", "backspace", "backspace")
    page.browser.run_async("setTimeout(arguments[0], 200)")
    page.browser.keys("5")
    assert page.browser.run(value) == "0.5"
    # What was emptied, one digit after the other, stays empty until something else has the focus.
    page.browser.keys("ctrl+a", *"12", "backspace", "backspace")
    page.browser.run_async("setTimeout(arguments[0], 200)")
    page.browser.keys("2")
    assert page.browser.run(value) == "2"
    page.browser.keys("backspace", "tab")
    page.wait_for("return document.querySelector('[data-pointer=\"/temperature\"]').value === '2'")
    page.browser.keys("ctrl+z")
    page.wait_for("return document.querySelector('[data-pointer=\"/temperature\"]').value !== '2'")


@both()
def test_what_is_typed_after_a_refused_edit_is_sent(page: StudioPage) -> None:
    page.part("Description")
    page.browser.run(
        "const call = window.fetch; let refused = false;"
        "window.fetch = (to, how) => {"
        " if (String(to).endsWith('/edit') && !refused) {"
        "  refused = true;"
        "  return Promise.resolve(Response.json({error: {message: 'Not now.'}}, {status: 409}));"
        " }"
        " const wait = String(to).endsWith('/workspace') ? 1000 : 0;"
        " return new Promise(done => setTimeout(done, wait)).then(() => call(to, how));"
        "}"
    )
    page.write("Description", " She hums")
    page.wait_for_text(".notices", "Not now.")
    page.browser.keys(*" aloud.")
    page.wait_for_prompt("She hums aloud.")
    assert page.browser.one("#undo").attribute("aria-disabled") == "false"
    page.part("Description")
    assert page.editor("Description").text.endswith("She hums aloud.")


@both()
def test_a_page_without_https_adds_prompts(page: StudioPage) -> None:
    page.browser.run("Crypto.prototype.randomUUID = undefined")
    page.part("Prompts")
    page.click_text("button", "Add a prompt")
    page.wait_for_text(".order .name", "New prompt")


@both()
def test_saving_shows_the_difference_first_and_keeps_a_copy(page: StudioPage) -> None:
    card = page.folder / "aria.json"
    before = card.read_bytes()
    page.part("Description")
    page.write("Description", " She hums.")
    page.wait_for("return document.querySelector('#save .count')?.textContent === '1'")
    page.browser.keys("ctrl+s")
    page.wait_for("return document.querySelector('dialog .unified .added')?.textContent.includes('She hums.')")
    assert card.read_bytes() == before
    page.browser.one("#save-all").click()
    page.wait_for_text(".notices", "Saved aria.json")
    assert json.loads(card.read_text(encoding="utf-8"))["data"]["description"].endswith("She hums.")
    copies = [path for path in page.folder.iterdir() if path.name.startswith("aria.json.")]
    assert [path.read_bytes() for path in copies] == [before]
    page.wait_for("return !document.querySelector('#save .count') && !document.querySelector('dialog')")


@both()
def test_a_file_that_changed_on_disk_is_not_lost(page: StudioPage) -> None:
    card = page.folder / "aria.json"
    page.part("Description")
    page.write("Description", " She hums.")
    other = json.loads(card.read_text(encoding="utf-8"))
    other["data"]["creator_notes"] = "somebody else was here"
    card.write_text(json.dumps(other), encoding="utf-8")
    page.browser.keys("ctrl+s")
    page.wait_for_text("dialog", "changed on disk")
    page.click_text("dialog button", "Overwrite it")
    page.wait_for_text(".notices", "Saved aria.json")
    assert "She hums." in card.read_text(encoding="utf-8")
    # Chromium logs answers that refuse something; this one was meant to.
    assert [error for error in page.browser.errors() if "409" not in error] == []


@both()
def test_what_is_on_disk_is_taken_instead(page: StudioPage) -> None:
    card = page.folder / "aria.json"
    page.part("Description")
    page.write("Description", " She hums.")
    page.wait_for_prompt("She hums.")
    other = json.loads(card.read_text(encoding="utf-8"))
    other["data"]["description"] = "Somebody else was here."
    card.write_text(json.dumps(other), encoding="utf-8")
    page.browser.keys("ctrl+s")
    page.wait_for_text("dialog", "changed on disk")
    page.click_text("dialog button", "Take what is on disk")
    page.wait_for_text("dialog .pill", "saved")
    page.browser.keys("escape")
    page.wait_for_prompt("Somebody else was here.")
    page.wait_for_prompt("She hums.", there=False)
    assert "She hums." not in card.read_text(encoding="utf-8")
    # Undo still leads back to what was typed.
    page.browser.one("#undo").click()
    page.wait_for_prompt("She hums.")


def png_card(folder: Path) -> Studio:
    """The example's card as a picture."""
    save(load(folder / "aria.json"), folder / "aria.png")
    return open_studio(files_of(folder, card=folder / "aria.png"))


@both(png_card)
def test_a_picture_stays_a_picture(page: StudioPage) -> None:
    path = page.folder / "aria.png"
    before = path.read_bytes()
    page.part("Description")
    page.write("Description", " She hums.")
    page.wait_for("return document.querySelector('#save .count')?.textContent === '1'")
    page.browser.one("#save").click()
    page.wait_for("return document.querySelector('dialog .unified .added')?.textContent.includes('She hums.')")
    assert path.read_bytes() == before
    page.browser.one("#save-all").click()
    page.wait_for_text(".notices", "Saved aria.png")
    with Image.open(path) as after, Image.open(io.BytesIO(before)) as picture:
        assert after.format == "PNG"
        assert list(after.convert("RGBA").tobytes()) == list(picture.convert("RGBA").tobytes())
    assert load(path).character.description.endswith("She hums.")
    copies = [each for each in page.folder.iterdir() if each.name.startswith("aria.png.")]
    assert [each.read_bytes() for each in copies] == [before]


def card_with_book(folder: Path) -> Studio:
    """The example's card with lore of its own."""
    path = folder / "aria.json"
    card = json.loads(path.read_text(encoding="utf-8"))
    entry = {
        "keys": ["lamp"], "content": "Lamps are lit at dusk.", "comment": "Dusk", "enabled": True,
        "insertion_order": 10, "extensions": {}, "id": 0, "position": "before_char",
    }  # fmt: skip
    card["data"]["character_book"] = {"name": "Hers", "entries": [entry], "extensions": {}}
    path.write_text(json.dumps(card), encoding="utf-8")
    return open_studio(files_of(folder))


@both(card_with_book)
def test_the_book_in_a_card_is_edited(page: StudioPage) -> None:
    page.wait_for_prompt("Lamps are lit at dusk.")
    page.part("in the card")
    page.wait_for("return document.querySelector('[data-pointer$=\"/comment\"]')?.value === 'Dusk'")
    page.write("Content", "Lamps are lit at dawn.", instead=True)
    page.wait_for_prompt("Lamps are lit at dawn.")
    page.part("in the card")
    page.browser.one("#add-entry").click()
    page.wait_for("return document.querySelectorAll('.entry').length === 2")
    page.browser.one("input[data-pointer$='/keys']").type("dark")
    page.write("Content", "The dark is old.")
    page.wait_for_prompt("The dark is old.")
    page.browser.keys("ctrl+s")
    page.browser.wait(lambda: page.browser.all("#save-all"))
    page.browser.one("#save-all").click()
    page.wait_for_text(".notices", "Saved aria.json")
    written = json.loads((page.folder / "aria.json").read_text(encoding="utf-8"))["data"]["character_book"]
    assert [each["content"] for each in written["entries"]] == ["Lamps are lit at dawn.", "The dark is old."]


def risu_preset(folder: Path) -> Studio:
    """The example with a preset of RisuAI's."""
    template = [
        {"type": "plain", "type2": "main", "role": "system", "text": "Write slowly."},
        {"type": "description", "innerFormat": "About her: {{slot}}"},
        {"type": "lorebook"},
        {"type": "chat", "rangeStart": 0, "rangeEnd": "end"},
    ]
    preset = {"name": "Slow", "promptTemplate": template, "maxContext": 8000, "maxResponse": 300, "aiModel": "gpt4o"}
    (folder / "slow.json").write_text(json.dumps(preset), encoding="utf-8")
    return open_studio(files_of(folder, preset=folder / "slow.json", platform="risu_ai"))


@both(risu_preset)
def test_a_preset_of_risuai_is_edited(page: StudioPage) -> None:
    page.wait_for_prompt("About her: ")
    page.part("Prompts")
    assert order(page) == ["plain", "description", "lorebook", "chat"]
    page.write("Text", "Write quickly.", instead=True)
    page.wait_for_prompt("Write quickly.")
    page.part("Prompts")
    page.click_text(".order .name", "description")
    page.write("Format", "Her: {{slot}}", instead=True)
    page.wait_for_prompt("Her: ")
    page.part("Prompts")
    page.browser.run("document.querySelector('.grip').focus()")
    page.browser.keys("down")
    page.browser.wait(lambda: order(page) == ["description", "plain", "lorebook", "chat"])
    page.click_text(".form > button", "Add a prompt")
    page.write("Text", "And never stop.")
    page.wait_for_prompt("And never stop.")
    text = page.prompt()
    assert text.index("Her: ") < text.index("Write quickly.") < text.index("And never stop.")
    page.part("Settings")
    page.browser.one("input[data-pointer='/maxContext']").click()
    page.browser.keys("ctrl+a", *"6000")
    page.go("Prompt")
    page.wait_for_text(".budget", "of 5,650 tokens")  # 300 are for the reply, 50 to be safe


@both()
def test_lore_entries_are_edited(page: StudioPage) -> None:
    page.part("tidewatch")
    page.click_text(".entry", "The Grey Fleet")
    page.wait_for("return document.querySelector('[data-pointer$=\"/comment\"]')?.value === 'The Grey Fleet'")
    labels = page.browser.run("return [...document.querySelectorAll('.entry-form label')].map(e => e.textContent)")
    for wanted in (
        "Keys",
        "Secondary keys",
        "Needs",
        "Order",
        "Position",
        "Depth",
        "Probability",
        "Sticky",
        "Cooldown",
        "Group",
    ):
        assert any(wanted in label for label in labels), wanted
    page.browser.one("input[data-pointer$='/key']").type(", go dark")
    page.wait_for_text(".verdict.in", "go dark")
    page.write("Content", "The fleet is grey.", instead=True)
    page.wait_for_prompt("The fleet is grey.")
    page.part("tidewatch")
    page.browser.one("#add-entry").click()
    page.wait_for("return document.querySelector('[data-pointer$=\"/comment\"]')?.value === 'New entry'")
    page.browser.one("input[data-pointer$='/key']").type("lamp")
    page.write("Content", "Lamps are new.")
    page.wait_for_prompt("Lamps are new.")


@both()
def test_prompts_are_moved_by_keyboard_and_switched_off(page: StudioPage) -> None:
    page.part("Prompts")
    before = order(page)
    assert before[0] == "Main Prompt"
    page.browser.run("document.querySelector('.grip').focus()")
    page.browser.keys("down")
    page.wait_for("return document.activeElement.ariaLabel?.startsWith('Move Main Prompt, 2')")
    page.browser.keys("down")
    assert order(page)[:3] == [before[1], before[2], before[0]]
    page.wait_for("return document.querySelector('.notices').textContent.includes('now 3 of')")
    page.browser.one("input[aria-label='Main Prompt is on']").click()
    page.wait_for_prompt("next reply in a story", there=False)
    page.tab("changes")
    page.wait_for_text(".change.removed del", "next reply in a story")


@both()
def test_prompts_are_moved_with_buttons(page: StudioPage) -> None:
    page.part("Prompts")
    before = order(page)
    page.browser.one("button[aria-label='Move Main Prompt down']").click()
    page.browser.wait(lambda: order(page)[:2] == [before[1], before[0]])
    page.browser.one("button[aria-label='Move Main Prompt up']").click()
    page.browser.wait(lambda: order(page) == before)


@both()
def test_prompts_are_dragged(page: StudioPage) -> None:
    page.part("Prompts")
    before = order(page)
    # What the browser does for a drag, without its timing.
    page.browser.run(
        "const rows = document.querySelectorAll('.order li'), data = new DataTransfer();"
        "const fire = (row, kind) =>"
        "  row.dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: data}));"
        "fire(rows[0], 'dragstart');"
        "requestAnimationFrame(() => { fire(rows[2], 'dragover'); fire(rows[2], 'drop'); fire(rows[0], 'dragend') })"
    )
    page.browser.wait(lambda: order(page)[:3] == [before[1], before[2], before[0]])
    page.go("Prompt")
    page.wait_for("return document.querySelector('.block .source').textContent !== 'preset prompt Main Prompt'")


@both()
def test_everything_else_that_makes_a_prompt_is_edited(page: StudioPage) -> None:
    page.part("Greetings")
    page.browser.one("#add-greeting").click()
    page.wait_for_text(".field.long", "Greeting 3")
    page.write("Greeting 3", "Well met.")
    page.part("Example dialogue")
    page.write("Example dialogue", "\n{{char}}: Rope dries slowly.")
    page.wait_for_prompt("Rope dries slowly.")
    page.part("Card prompts")
    page.write("Character's note", "She never lies.")
    page.wait_for_prompt("She never lies.")
    page.part("Persona")
    page.write("Description", "A sailor without a ship.", instead=True)
    page.wait_for_prompt("A sailor without a ship.")
    page.part("Author's note")
    page.write("Author's note", "Slow and quiet.", instead=True)
    page.wait_for_prompt("Slow and quiet.")
    page.part("Lines")
    page.browser.all(".line-button")[-1].click()
    page.wait_for("return document.querySelector('.line.open .editor')?.shadowRoot?.querySelector('.cm-content')")
    page.browser.run("document.querySelector('.line.open .editor').shadowRoot.querySelector('.cm-content').focus()")
    page.browser.keys("ctrl+end", *" Or so they say.")
    page.wait_for_prompt("Or so they say.")


@both()
def test_templates_and_scripts_are_added_and_edited(page: StudioPage) -> None:
    page.browser.one("#files").click()
    for kind in ("regex scripts", "context template", "instruct template"):
        page.click_text("dialog button", f"New {kind}")
        page.wait_for_text("dialog tbody", f"New {kind}")
    assert (
        page.browser.run(
            "const body = document.querySelector('.dialog-body'); return body.scrollWidth - body.clientWidth"
        )
        <= 0
    )
    page.browser.keys("escape")
    page.wait_for("return !document.querySelector('dialog')")
    page.part("New regex scripts")
    page.click_text(".form button", "Add a script")
    page.wait_for_text(".field.long", "Find")
    page.write("Find", "/storm glass/g")
    page.write("Replace with", "barometer")
    page.click_text(".check", "what the user says")
    page.wait_for_prompt("Why is your barometer frozen?")
    page.choose("#dialect", "text")
    page.part("Context template")
    page.write("Story string", "\nThe story ends here.")
    page.wait_for_prompt("The story ends here.")
    page.part("Instruct template")
    page.write("Input sequence", "<<the sailor says>>")
    page.wait_for_prompt("<<the sailor says>>")


# ----------------------------------------------------------------------------------------------------------------------
# For everybody


@both()
def test_nothing_serious_for_people_with_assistive_technology(page: StudioPage) -> None:
    found: dict[str, list[str]] = {}
    for view in ("Prompt", "Edit", "Lore lab", "Talk", "Compare", "Playground"):
        if page.wide and view == "Edit":
            continue
        page.go(view)
        found[view] = page.findings()
        if page.wide:
            page.prefer("dark")
            found[f"{view}, dark"] = page.findings("color-contrast")
            page.prefer("light")
    for part in ("tidewatch", "Prompts", "Lines"):
        page.part(part)
        found[part] = page.findings()
    page.browser.one("#files").click()
    found["Files"] = page.findings()
    page.browser.keys("escape")
    page.part("Description")
    page.write("Description", ".")
    page.wait_for("return document.querySelector('#save .count')")
    page.browser.one("#save").click()
    page.wait_for("return document.querySelector('dialog .unified')")
    found["Save"] = page.findings()
    page.browser.keys("escape")
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    page.write("Your message", "Hello?")
    page.browser.keys("ctrl+enter")
    page.browser.wait(lambda: page.browser.all(".message:last-child .seen"))
    page.click_text(".message:last-child footer button", "What the model saw")
    page.wait_for("return document.querySelector('dialog .words')")
    found["What the model saw"] = page.findings()
    assert {name: findings for name, findings in found.items() if findings} == {}


@both()
def test_light_dark_and_as_the_system_says(page: StudioPage) -> None:
    def back() -> str:
        return page.browser.run("return getComputedStyle(document.body).backgroundColor")

    light = back()
    page.prefer("dark")
    dark = back()
    assert light != dark
    for theme, colour in (("light", light), ("dark", dark), ("system", dark)):
        page.browser.one("#theme").click()
        page.wait_for("return document.documentElement.dataset.theme === arguments[0]", theme)
        assert back() == colour


@both()
def test_the_keyboard_reaches_everything(page: StudioPage) -> None:
    page.browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.browser.keys("tab", "enter")
    assert page.browser.run("return document.activeElement.id") == "main"
    page.browser.run("document.querySelector('[role=tab][aria-selected=true]').focus()")
    page.browser.keys("right")
    assert page.browser.run("return document.activeElement.dataset.tab") == "changes"
    page.browser.keys("end")
    assert page.browser.run("return document.activeElement.dataset.tab") == "checks"
    page.browser.keys("ctrl+s")
    page.wait_for("return document.querySelector('dialog')?.contains(document.activeElement)")
    page.browser.keys("escape")
    page.wait_for("return !document.querySelector('dialog')")


def tab_to(page: StudioPage, name: str, *, at_most: int = 80) -> None:
    """Press Tab until something with this name has the focus."""
    script = (
        "const one = document.activeElement, inner = one?.shadowRoot?.activeElement ?? one;"
        "return inner?.ariaLabel || inner?.textContent.trim() || ''"
    )
    for _ in range(at_most):
        if page.browser.run(script) == name:
            return
        page.browser.keys("tab")
    raise AssertionError(f"Tab does not lead to {name!r}")


@both()
def test_a_change_and_a_talk_without_a_mouse(page: StudioPage) -> None:
    page.browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    tab_to(page, "Write" if page.wide else "Edit")
    page.browser.keys("enter")
    tab_to(page, "Description" if page.wide else "Personality")
    if page.wide:  # the outline's button, then the field
        page.browser.keys("enter", "tab")
        tab_to(page, "Personality")
    page.browser.keys("ctrl+end", *" Stubborn, too.")
    page.wait_for("return document.querySelector('#save .count')?.textContent === '1'")
    # Out of the text with Escape and Tab: Tab alone must not be caught in it.
    page.browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    tab_to(page, "Talk")
    page.browser.keys("enter")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    tab_to(page, "Your message")
    page.browser.keys(*"Hello?", "ctrl+enter")
    page.wait_for("return document.querySelectorAll('.message').length === 7 && document.querySelector('#send')")
    page.wait_for_prompt("Stubborn, too.")


@pytest.fixture
def hostile_files(folder: Path) -> None:
    card = json.loads((folder / "aria.json").read_text(encoding="utf-8"))
    card["data"] |= {"name": HOSTILE, "description": HOSTILE, "first_mes": HOSTILE, "alternate_greetings": [HOSTILE]}
    (folder / "aria.json").write_text(json.dumps(card), encoding="utf-8")
    book = json.loads((folder / "tidewatch.json").read_text(encoding="utf-8"))
    book["entries"]["0"] |= {"comment": HOSTILE, "content": HOSTILE, "key": [HOSTILE, "lamp"]}
    (folder / "tidewatch.json").write_text(json.dumps(book), encoding="utf-8")


@both()
def test_a_hostile_card_stays_text(hostile_files: None, page: StudioPage) -> None:
    assert page.browser.run("return document.title") == HOSTILE + " · TavernKit Studio"
    assert HOSTILE.replace("{{char}}", HOSTILE) in page.prompt() or HOSTILE in page.prompt()
    for view in ("Edit", "Lore lab", "Compare", "Playground"):
        page.go(view)
    page.part("tidewatch")
    page.go("Talk")
    page.wait_for("return document.querySelectorAll('.message').length === 5")
    page.browser.run("document.querySelector('.script').open = true")
    page.browser.one(".script textarea").type(HOSTILE)
    page.click_text(".script button", "Use it")
    page.wait_for_text(".notices", "in turn")
    page.write("Your message", HOSTILE)
    page.browser.keys("ctrl+enter")
    page.wait_for("return document.querySelectorAll('.message').length === 7 && document.querySelector('#send')")
    page.click_text(".message:last-child footer button", "What the model saw")
    page.wait_for_text("dialog .block .text", "</p><script>")
    assert page.browser.run("return document.images.length") == 0
    assert page.browser.run("return document.scripts.length") == 1
    assert "owned" not in page.browser.run("return document.title").replace(HOSTILE, "")
    page.browser.keys("escape")
    page.wait_for("return !document.querySelector('dialog')")


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_without_its_token_the_page_asks_for_a_key(browser: Browser, folder: Path, size: tuple[int, int]) -> None:
    browser.resize(*size)
    with serving(open_studio(files_of(folder))) as address:
        browser.open("about:blank")
        browser.open(address.partition("#")[0])
        browser.run("sessionStorage.clear()")
        browser.open(address.partition("#")[0])
        browser.wait(lambda: browser.all("input[type=password]"))
        browser.keys("ctrl+s", "ctrl+z")  # there is nothing to save or undo yet
        browser.one("input[type=password]").type("the-token")
        browser.keys("enter")
        browser.wait(lambda: browser.all(".block"))
        assert not browser.all("dialog")


ASKED_BY_ANOTHER = """
const [address, done] = arguments;
const headers = {Authorization: 'Bearer the-token', 'Content-Type': 'application/json'};
const answer = (options) => fetch(address + 'api/studio/build', {method: 'POST', body: '{}', ...options})
  .then(async (each) => `${each.status} ${(await each.text()).length > 0}`, (error) => error.name);
Promise.all([answer({headers}), answer({mode: 'no-cors'})]).then(done);
"""


def test_another_page_in_the_browser_gets_nothing(browser: Browser, tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "other.html"
    other.write_text("<!doctype html><iframe></iframe>", encoding="utf-8")
    studio = open_studio(files_of(folder))
    with serving(studio) as address:
        base = address.partition("#")[0]
        browser.open(other)
        assert browser.run_async(ASKED_BY_ANOTHER, base) == ["TypeError", "TypeError"]
        # Nor is it shown in a frame of another page, where clicks could be stolen.
        browser.run("document.querySelector('iframe').src = arguments[0]", address)
        browser.wait(lambda: any("frame-ancestors" in error for error in browser.errors()))
        assert studio.prompts.last is None
        browser.open(base)
        assert browser.run_async(ASKED_BY_ANOTHER, base) == ["200 true", "401 true"]
        browser.open("about:blank")
