"""What can be said of the page without a browser: the policy holds, imports resolve, nothing comes from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest

from tavernkit.studio._document import new_document
from tests.studio.conftest import Page

PAGE = Path(str(files("tavernkit"))) / "studio" / "page"
VENDOR = PAGE / "vendor"
OWN = sorted(
    path for path in PAGE.rglob("*") if path.suffix in {".js", ".css", ".html", ".svg"} and VENDOR not in path.parents
)
SCRIPTS = [path for path in OWN if path.suffix == ".js"]
SERVED = [*OWN, *sorted(VENDOR.glob("*.js"))]
NAMESPACES = re.compile(r"http://www\.w3\.org/(?:1999/xhtml|2000/svg|1998/Math/MathML)")


def name(path: Path) -> str:
    return path.relative_to(PAGE).as_posix()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in {"script", "style"}:
            self.texts.append(data.strip())


def test_the_html_needs_no_exception_in_the_policy() -> None:
    page = Tags()
    page.feed((PAGE / "index.html").read_text(encoding="utf-8"))
    assert not any(page.texts)
    assert "style" not in {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not [key for key in attributes if key == "style" or key.startswith("on")]
        if tag == "script":
            assert attributes["type"] == "module"
        for key in ("src", "href"):
            address = attributes.get(key)
            if address is not None:
                assert address.startswith("/studio/")
                assert (PAGE / address.removeprefix("/studio/")).is_file()


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_every_import_is_a_file_here(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for found in re.findall(r"""^(?:import|export)\b[^;]*?from\s*["']([^"']+)["']""", text, re.MULTILINE):
        assert found.startswith(("./", "../")), found
        assert (path.parent / found).resolve().is_file(), found
    assert not re.search(r"\bimport\s*\(", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_texts_stay_texts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "new Function",
        "srcdoc",
    ):
        assert word not in text
    assert not re.search(r"\beval\(", text)
    # Handlers and styles are functions and objects: a string would need an exception in the policy.
    assert not re.search(r"""\s(?:style|on[a-zA-Z]+)=["'`]""", text)
    assert "javascript:" not in text


@pytest.mark.parametrize("path", SERVED, ids=name)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    text = NAMESPACES.sub("", path.read_text(encoding="utf-8"))
    assert not re.findall(r"(?:https?|wss?):?//[^\s\"'`)]+", text)
    if path.suffix == ".css":
        assert "url(" not in text
        assert "@import" not in text


def test_the_libraries_are_the_recipe_s() -> None:
    recipe = Path(__file__).parents[2] / "tools" / "studio" / "package.json"
    wanted = json.loads(recipe.read_text(encoding="utf-8"))["devDependencies"]
    readme = (VENDOR / "README.md").read_text(encoding="utf-8")
    for library in ("preact", "htm", "@codemirror/state", "@codemirror/view", "@codemirror/commands"):
        row = next(line for line in readme.splitlines() if f"| {library}" in line.replace("Preact", "preact"))
        assert f"| {wanted[library]} |" in row
    licences = (VENDOR / "LICENSES.txt").read_text(encoding="utf-8")
    assert "Jason Miller" in licences
    assert "Marijn Haverbeke" in licences


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in PAGE.rglob("*") if path.is_file()) < 1_500_000


DOWNLOAD = """
globalThis.sessionStorage = { getItem: () => "" };
const link = { click() {} };
globalThis.document = { createElement: () => link };
URL.createObjectURL = () => "blob:";
URL.revokeObjectURL = () => {};
const headers = { "content-disposition": process.argv[2] };
globalThis.fetch = async () => new Response("", { headers });
const { download } = await import("./api.mjs");
await download("/documents/card-1/download", "a name without an ending");
console.log(link.download);
process.exit(0);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js")
def test_a_downloaded_file_has_the_name_of_the_documents_file(page: Page, tmp_path: Path) -> None:
    page.edit("card-1", "/data/name", "x", build=False)
    page.studio.workspace.add(new_document("", "card", "Ária, 1", {"data": {"name": "Ária"}, "spec": "chara_card_v2"}))
    shutil.copy(PAGE / "api.js", tmp_path / "api.mjs")
    (tmp_path / "test.mjs").write_text(DOWNLOAD, "utf-8")
    for document in ("card-1", "card-2"):
        told = page.client.get(f"/api/studio/documents/{document}/download").headers["content-disposition"]
        command = ["node", str(tmp_path / "test.mjs"), told]
        ran = subprocess.run(command, check=True, capture_output=True, encoding="utf-8", timeout=60)
        assert ran.stdout == f"{page.studio.workspace.document(document).file_name}\n"
        assert ran.stdout.endswith(".json\n")
