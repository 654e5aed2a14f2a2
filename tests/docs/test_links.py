"""Links and pictures of the pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
LINK = re.compile(r"\]\(([^)\s]+)\)|\b(?:src|srcset)=\"([^\"]+)\"")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_links_to_is_there(page: Path) -> None:
    links = {a or b for a, b in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))}
    inside = {link for link in links if "://" not in link and not link.startswith("mailto:")}
    assert [link for link in sorted(inside) if not _leads_somewhere(page, link)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_in_tables_contains_no_bars(page: Path) -> None:
    """GitHub needs a backslash before them, which the pages would show."""
    assert not re.findall(r"`[^`\n]*\\\|[^`\n]*`", page.read_text(encoding="utf-8"))


def test_the_readme_shows_studio_and_the_report() -> None:
    shown = {
        Path(source).stem for _, source in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")) if source
    }
    assert {"studio-write", "studio-write-dark", "report", "report-dark"} <= shown


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    if not target.exists():
        return False
    return not anchor or anchor.startswith("tavernkit.") or anchor in _anchors(target)


def _anchors(page: Path) -> set[str]:
    """The ids that headings get."""
    headings = HEADING.findall(
        re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    )
    plain = (re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", heading).replace("`", "").lower() for heading in headings)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip()) for heading in plain}
