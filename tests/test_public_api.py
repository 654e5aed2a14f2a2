"""The public names, listed: a change here is deliberate. `python -m tests.test_public_api` writes the list anew."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tavernkit

PACKAGES = (
    "tavernkit",
    "tavernkit.authoring",
    "tavernkit.batching",
    "tavernkit.budget",
    "tavernkit.cache",
    "tavernkit.cards",
    "tavernkit.conversation",
    "tavernkit.dialects",
    "tavernkit.embeddings",
    "tavernkit.lint",
    "tavernkit.lore",
    "tavernkit.models",
    "tavernkit.prompt",
    "tavernkit.report",
    "tavernkit.risu_ai",
    "tavernkit.server",
    "tavernkit.silly_tavern",
    "tavernkit.silly_tavern.providers",
    "tavernkit.stores",
    "tavernkit.studio",
    "tavernkit.testing",
    "tavernkit.vibe_tavern",
)
PLATFORMS = ("tavernkit.cards", "tavernkit.risu_ai", "tavernkit.silly_tavern", "tavernkit.vibe_tavern")
LISTING = Path(__file__).with_name("public_api.txt")


def listing() -> str:
    return "".join(
        f"{package}.{name}\n" for package in PACKAGES for name in sorted(importlib.import_module(package).__all__)
    )


def test_public_names_are_as_listed() -> None:
    assert listing() == LISTING.read_text(encoding="utf-8")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_that_of_a_module(package: str) -> None:
    imported = importlib.import_module(package)
    # Once the module is imported, the package's attribute of this name is the module.
    assert not {module.name for module in pkgutil.iter_modules(imported.__path__)} & set(imported.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_exist_and_say_what_they_are_for(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{package}.{name} has no docstring"


def test_packages_are_attributes_that_are_loaded_when_they_are_used() -> None:
    code = "import sys, tavernkit as tk; assert 'tavernkit.risu_ai' not in sys.modules; tk.risu_ai.Save; tk.cards.load"
    subprocess.run([sys.executable, "-c", code], check=True)
    # The service and its page are attributes once they are imported, as another test may have done.
    assert {name for name in PACKAGES if name.count(".") == 1} - {"tavernkit.server", "tavernkit.studio"} <= {
        f"tavernkit.{name}" for name in dir(tavernkit)
    }


PROGRAMS = {"tavernkit.cli", "tavernkit.server"}
"""What is run: their modules are all private; ``tavernkit.server`` itself has a few names."""


@pytest.mark.parametrize("package", [*sorted({*PACKAGES} - PROGRAMS), "tavernkit.examples"])
def test_what_nobody_should_import_is_marked(package: str) -> None:
    modules = {each.name for each in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")}
    names = {name.rpartition(".")[2] for name in modules - {*PACKAGES, *PROGRAMS, "tavernkit.examples"}}
    assert {name for name in names if not name.startswith("_")} <= {"errors"}


INNER = {
    "tavernkit.cards._character.REQUIRED",
    "tavernkit.cards._character.SPECS",
    "tavernkit.cards._json_text.dump_json",
    "tavernkit.cards._png.placeholder_png",
    "tavernkit.cards._risu_ai.exporting.export_charx",
    "tavernkit.cards._saving.SUFFIXES",
    "tavernkit.cards._silly_tavern.stored.sanitize",
    "tavernkit.cards._silly_tavern.stored.chat_name",
    "tavernkit.cards._yaml_card.SHORT_FORM",
    "tavernkit.cards._yaml_card.parse_yaml",
    "tavernkit.cards.errors.ImageError",
    "tavernkit.cards.errors.PngError",
    "tavernkit.risu_ai._conversation.chat_state.branch_comment",
    "tavernkit.risu_ai._conversation.chat_state.branch_names",
    "tavernkit.risu_ai._files.chat_file.chat_json",
    "tavernkit.risu_ai._files.chat_file.write_chats",
    "tavernkit.risu_ai._files.file_kinds.is_database",
    "tavernkit.risu_ai._files.kept_fields.GROUP_KEYS",
    "tavernkit.risu_ai._files.kept_fields.kept_character",
    "tavernkit.risu_ai._files.kept_fields.kept_fields",
    "tavernkit.risu_ai._files.kept_fields.lore_module",
    "tavernkit.risu_ai._files.kept_fields.make_group",
    "tavernkit.risu_ai._files.kept_fields.with_kept_fields",
    "tavernkit.risu_ai._files.preset.preset_from_database",
    "tavernkit.risu_ai._files.preset_file.write_preset",
    "tavernkit.risu_ai._files.settings.with_newest_summaries",
    "tavernkit.risu_ai._lorebook.entry.Decorator",
    "tavernkit.risu_ai._lorebook.entry.parse_content",
    "tavernkit.risu_ai._regex_scripts.ScriptMode",
    "tavernkit.silly_tavern._caching.frozen_lore.METADATA_KEY",
    "tavernkit.silly_tavern._chat.card_fields.AFTER_CHARACTER",
    "tavernkit.silly_tavern._chat.card_fields.IN_PROMPT",
    "tavernkit.silly_tavern._chat.vector_storage.CHAT_COLLECTION",
    "tavernkit.silly_tavern._chat.vector_storage.EXTENSION",
    "tavernkit.silly_tavern._templates.handlebars.rendering.Template",
    "tavernkit.silly_tavern._files.attached_files.AttachedFiles",
    "tavernkit.silly_tavern._chat_completion.tools.read_tools",
    "tavernkit.silly_tavern._conversation.chat_state.ChatState",
    "tavernkit.silly_tavern._conversation.commands.is_known",
    "tavernkit.silly_tavern._conversation.lines",
    "tavernkit.silly_tavern._conversation.numbered_lines.NumberedLines",
    "tavernkit.silly_tavern._conversation.numbered_lines.moved",
    "tavernkit.silly_tavern._files.data_folder.allowed_scripts",
    "tavernkit.silly_tavern._files.data_folder.tags_of",
    "tavernkit.silly_tavern._files.folder_files.CHATS",
    "tavernkit.silly_tavern._files.folder_files.GROUP_CHATS",
    "tavernkit.silly_tavern._files.folder_files.folded",
    "tavernkit.silly_tavern._files.personas.choose_persona",
    "tavernkit.silly_tavern._files.personas.read_description",
    "tavernkit.silly_tavern._files.preset.SENSITIVE_KEYS",
    "tavernkit.silly_tavern._macros.environment.CHAT_COMPLETION_API",
    "tavernkit.silly_tavern._macros.seeding.string_hash",
    "tavernkit.silly_tavern._text_completion.planning.SETTINGS",
    "tavernkit.silly_tavern._world_info.character_book.EXTENSION_FIELDS",
    "tavernkit.silly_tavern._world_info.entry.TEMPLATE",
    "tavernkit.silly_tavern._world_info.entry.problem_with",
    "tavernkit.silly_tavern._world_info.entry.parse_regex_key",
    "tavernkit.silly_tavern._world_info.selection.character_book_names",
    "tavernkit.silly_tavern.providers.CHAT_SOURCES",
    "tavernkit.silly_tavern.providers.TEXT_BACKENDS",
    "tavernkit.vibe_tavern._evals.harness.matrix",
}
"""What our own applications take from inside a package, and nobody else needs."""


def test_our_own_applications_need_little_that_is_not_public() -> None:
    rooms = ("cli", "lint", "report", "server", "testing")
    files = (path for room in rooms for path in (Path(tavernkit.__file__).parent / room).rglob("*.py"))
    assert {name for path in files for name in _inner_names(path)} <= INNER


def _inner_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        package = ".".join(node.module.split(".")[:2])
        if package in PLATFORMS and node.module != package:
            public = importlib.import_module(package).__all__
            yield from (f"{node.module}.{each.name}" for each in node.names if each.name not in public)


if __name__ == "__main__":
    LISTING.write_text(listing(), encoding="utf-8")
