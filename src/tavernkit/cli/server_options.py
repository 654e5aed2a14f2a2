"""Options that ``tavernkit serve`` and ``tavernkit server`` share, and how they are read."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tavernkit.server.config import ServerConfig

DataFolder = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder for the SQLite file (default: ./tavernkit-data).")
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="URL of a database: postgresql://… or sqlite:///….", show_default=False),
]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="A TOML file with settings.")]


def read_settings(data: Path | None, db: str | None, config: Path | None, **given: object) -> ServerConfig:
    """Return the settings of a command.

    Args:
        data: The folder for the SQLite file.
        db: The URL of the database.
        config: The file with settings.
        given: Other options, which replace what the file says; ``None`` for those that were not given.
    """
    if config is not None and not config.is_file():
        raise typer.BadParameter(f"there is no file {str(config)!r}")
    if data is not None and data.exists() and not data.is_dir():
        raise typer.BadParameter(f"{data} is a file: --data is a folder")
    with server_extra():
        from tavernkit.server.config import load_config
    options = {"data": data, "db": db, **given}
    return load_config(config, overrides={name: value for name, value in options.items() if value is not None})


@contextmanager
def server_extra() -> Generator[None]:
    """Say what to install if a package for the server is missing."""
    from tavernkit.errors import ConfigError

    try:
        yield
    except ModuleNotFoundError as error:
        message = "the server needs its extra: pip install 'tavernkit[server]'"
        raise ConfigError(message, code="EXTRA_MISSING") from error
