"""``make dist``: build wheel and sdist, install the wheel alone into a clean environment, and run the quickstart there.

Prints what a new user gets: how large the install is and how long ``import tavernkit`` takes. The wheel is built from
the sdist, so both are tried. ``make dist-extras`` then does the same for each extra alone, with its check in
``tests/extras.py``; ``EXTRAS="lua server"`` chooses some.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import tavernkit
from tests.extras import CHECKS

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
IMPORT_RUNS = 7
TIME_IMPORT = "import time; t = time.perf_counter(); import tavernkit; print(time.perf_counter() - t)"
SITE_PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"
MODULES = "import sys, tavernkit; print(tavernkit.__version__, tavernkit.__file__)"


def main(arguments: Sequence[str]) -> int:
    """Build, install, run; any failure ends it."""
    version = tavernkit.__version__
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT)], check=True, stdout=subprocess.DEVNULL
    )
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    _check_contents(wheel, sdist, version)
    with tempfile.TemporaryDirectory() as folder:
        python = _clean_environment(Path(folder), wheel)
        found = _output(python, "-c", MODULES).split()
        assert found[0] == version, found
        assert str(ROOT) not in found[1], "the checkout was imported instead of the wheel"
        _run_quickstart(python, Path(folder))
        site = Path(_output(python, "-c", SITE_PACKAGES).strip())
        with_dependencies = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
        imports = sorted(float(_output(python, "-c", TIME_IMPORT)) for _ in range(IMPORT_RUNS))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; {sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")
        print(f"base install with dependencies, pip left out: {(with_dependencies - _pip_size(site)) / 1e6:.0f} MB")
        print(f"import tavernkit: {imports[len(imports) // 2] * 1000:.0f} ms")
    if arguments[:1] == ["--extras"]:
        for name in arguments[1:] or CHECKS:
            _try_extra(name, wheel)
    return 0


def _try_extra(name: str, wheel: Path) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        python = _clean_environment(Path(folder), wheel, name)
        installed = time.monotonic()
        shutil.copy(ROOT / "tests" / "extras.py", folder)
        _output(python, "extras.py", name, folder=Path(folder))
    ended = time.monotonic()
    print(f"{name}: works ({installed - started:.0f} s to install, {ended - installed:.0f} s to check)", flush=True)


def _check_contents(wheel: Path, sdist: Path, version: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        described = archive.read(f"tavernkit-{version}.dist-info/METADATA").decode()
    assert not re.search(r"""(\]\(|src(set)?=")(?!https?:)""", described), "a link that leads nowhere on other sites"
    assert {"tavernkit/py.typed", f"tavernkit-{version}.dist-info/licenses/LICENSE"} <= names, sorted(names)[:20]
    with tarfile.open(sdist) as archive:
        members = set(archive.getnames())
    wanted = {f"tavernkit-{version}/{name}" for name in ("README.md", "CHANGELOG.md", "src/tavernkit/__init__.py")}
    assert wanted <= members, wanted - members


def _clean_environment(folder: Path, wheel: Path, extra: str = "") -> Path:
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", f"{wheel}[{extra}]" if extra else str(wheel)], check=True
    )
    return python


def _run_quickstart(python: Path, folder: Path) -> None:
    """The README's example as a doctest, and the demo, away from the checkout."""
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    (folder / "quickstart.txt").write_text("\n".join(blocks), encoding="utf-8")
    assert ">>> " in blocks[0]
    _output(python, "-m", "doctest", "quickstart.txt", folder=folder)
    shown = _output(python, "-m", "tavernkit", "demo", folder=folder)
    assert "Aria" in shown, shown


def _pip_size(site: Path) -> int:
    folders = (folder for name in ("pip*", "setuptools*") for folder in site.glob(name))
    return sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())


def _output(python: Path, *arguments: str, folder: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TAVERNKIT"))}
    made = subprocess.run(
        [str(python), *arguments], check=False, cwd=folder, env=environment, capture_output=True, text=True
    )
    if made.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{made.stdout}{made.stderr}")
    return made.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
