"""Studio in a real browser: files of every kind, and what is missing among them. Run with ``make test-browser``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tavernkit import risu_ai
from tavernkit.risu_ai._files.preset_file import write_preset
from tavernkit.studio import Studio
from tavernkit.studio._app import Opened, open_studio
from tests.browser.studio_page import StudioPage, both, files_of, order

pytestmark = pytest.mark.browser

MESSAGE = "Have you ever seen the storm glass melt?"


def only_a_card(folder: Path) -> Studio:
    return open_studio(Opened(card=folder / "aria.json", message=MESSAGE))


@both(only_a_card)
def test_a_copy_of_the_default_preset_is_edited(page: StudioPage) -> None:
    page.wait_for_prompt("next reply in a")
    page.part("Default preset")
    page.browser.one("#make-document").click()
    page.wait_for("return document.querySelector('.order .name')")
    assert order(page)[0] == "Main Prompt"
    page.write("Content", "Write slowly.", instead=True)
    page.wait_for_prompt("Write slowly.")
    # The text and the new document are two steps.
    page.browser.one("#undo").click()
    page.wait_for_prompt("next reply in a")
    page.browser.one("#undo").click()
    page.part("Default preset")
    page.go("Prompt")
    page.choose("#dialect", "text")
    page.part("Context template")
    page.browser.one("#make-document").click()
    page.write("Story string", "\nThe story ends here.")
    page.wait_for_prompt("The story ends here.")


@both(only_a_card)
def test_the_parts_of_risuai_s_default_preset_are_moved(page: StudioPage) -> None:
    page.choose("#platform", "RisuAI")
    page.part("Default preset")
    page.browser.one("#make-document").click()
    page.wait_for("return document.querySelector('.order .name')")
    assert order(page)[:2] == ["Main prompt", "Description"]
    page.browser.one("button[aria-label='Move Main prompt down']").click()
    page.browser.wait(lambda: order(page)[:2] == ["Description", "Main prompt"])
    # Its text is among the settings.
    page.click_text(".order .name", "Main prompt")
    page.write("Main prompt", "Write slowly.", instead=True)
    page.wait_for_prompt("Write slowly.")
    text = page.prompt()
    assert text.index("Forty, weathered") < text.index("Write slowly.")


def packed_preset(folder: Path) -> Studio:
    """A preset as RisuAI exports it."""
    template = [{"type": "plain", "type2": "main", "role": "system", "text": "Write slowly."}, {"type": "chat"}]
    preset = risu_ai.Preset.from_json({"name": "Slow", "promptTemplate": template})
    (folder / "slow.risup").write_bytes(write_preset(preset, ".risup"))
    return open_studio(files_of(folder, preset=folder / "slow.risup", platform="risu_ai"))


@both(packed_preset)
def test_a_packed_preset_of_risuai_is_edited_and_saved(page: StudioPage) -> None:
    page.part("Prompts")
    assert order(page) == ["plain", "chat"]
    page.write("Text", "Write quickly.", instead=True)
    page.wait_for_prompt("Write quickly.")
    page.browser.keys("ctrl+s")
    page.browser.wait(lambda: page.browser.all("#save-all"))
    page.browser.one("#save-all").click()
    page.wait_for_text(".notices", "Saved slow.risup")
    saved = risu_ai.Preset.load(page.folder / "slow.risup")
    assert "Write quickly." in json.dumps(saved.to_json()["promptTemplate"])


SCRIPT = {
    "scriptName": "No glass", "findRegex": "/storm glass/g", "replaceString": "barometer", "trimStrings": [],
    "placement": [1], "disabled": False, "promptOnly": True, "markdownOnly": False,
}  # fmt: skip
RISU_SCRIPT = {"comment": "No glass", "in": "storm glass", "out": "barometer", "type": "editprocess"}


def scripts_everywhere(folder: Path) -> Studio:
    """A script in a file as SillyTavern exports it, and scripts of both programs in the card."""
    (folder / "no-glass.json").write_text(json.dumps(SCRIPT), encoding="utf-8")
    card = json.loads((folder / "aria.json").read_text(encoding="utf-8"))
    lamp = SCRIPT | {"scriptName": "No lamp", "findRegex": "/frozen/g", "replaceString": "cold"}
    card["data"]["extensions"] |= {"regex_scripts": [lamp], "risuai": {"customScripts": [RISU_SCRIPT]}}
    (folder / "aria.json").write_text(json.dumps(card), encoding="utf-8")
    return open_studio(files_of(folder, regex_scripts=[folder / "no-glass.json"]))


@both(scripts_everywhere)
def test_scripts_are_edited_wherever_they_are(page: StudioPage) -> None:
    page.wait_for_prompt("Why is your barometer cold?")
    page.part("no-glass")
    page.write("Replace with", "weather glass", instead=True)
    page.wait_for_prompt("Why is your weather glass cold?")
    page.part("Aria (in the card)")
    page.wait_for("return document.querySelector('[data-pointer$=\"/scriptName\"]')?.value === 'No lamp'")
    page.write("Replace with", "white", instead=True)
    page.wait_for_prompt("Why is your weather glass white?")
    page.choose("#platform", "RisuAI")
    page.part("Aria (in the card, for RisuAI)")
    page.write("Replace with", "ice", instead=True)
    page.wait_for_prompt("Why is your ice frozen?")


@both()
def test_names_open_at_their_characters(page: StudioPage) -> None:
    for described in ("from Aria name, word for word", "from Ann name, word for word"):
        page.go("Prompt")
        page.wait_for_sources()
        name = page.browser.find(
            f"return [...document.querySelectorAll('.words')].find(e => e.ariaDescription === {described!r})"
        )
        words = name.text
        name.click()
        page.wait_for(
            "const field = document.activeElement; return field.matches('input[data-pointer$=\"/name\"]')"
            " && field.value.slice(field.selectionStart, field.selectionEnd) === arguments[0]",
            words,
        )
