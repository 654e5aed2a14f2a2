"""What the repository says about itself agrees with itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import tavernkit

ROOT = Path(__file__).parent.parent


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == tavernkit.__version__
    assert f"## {tavernkit.__version__} (" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_hosted_checks_run_what_the_makefile_has() -> None:
    targets = {
        line.split(":")[0] for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "## " in line
    }
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"]
        assert all(job["timeout-minutes"] <= 60 for job in jobs.values())
        commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        assert commands
        assert {command.removeprefix("make ") for command in commands if command.startswith("make ")} <= targets


def test_addresses_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source, pages = project["urls"]["Source"], project["urls"]["Documentation"]
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert (config["site_url"], config["extra"]["social"][0]["link"]) == (pages, source)
    assert {project["urls"][name].startswith(f"{source}/") for name in ("Issues", "Changelog")} == {True}
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["url"], citation["repository-code"]) == (pages, source)
    contact = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml").read_text(encoding="utf-8"))
    assert [link["url"] for link in contact["contact_links"]] == [f"{source}/security/advisories/new"]
    assert f"]({project['urls']['Changelog']})" in (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")


def test_files_for_the_host_can_be_read() -> None:
    for path in (ROOT / ".github").rglob("*.yml"):
        assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict), path


def test_issue_forms_are_complete() -> None:
    """GitHub does not show a form that lacks one of these, or has another key."""
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert {path.stem for path in forms} == {"bug", "idea", "parity"}
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert form["name"]
        assert form["description"]
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len(set(ids))
        for field in form["body"]:
            assert field["type"] in ("input", "textarea")
            assert {"label"} <= set(field["attributes"]) <= {"label", "description"}
            assert all(field["attributes"].values())
            assert isinstance(field["validations"]["required"], bool)


def test_docstrings_are_markdown() -> None:
    """Pages would show Sphinx roles as they are."""
    role = re.compile(r":(class|func|meth|data|mod|attr|exc|const):`")
    assert not [str(path) for path in (ROOT / "src").rglob("*.py") if role.search(path.read_text(encoding="utf-8"))]
