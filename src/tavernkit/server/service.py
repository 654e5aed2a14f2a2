"""The parts of a running server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import func, select

from tavernkit.cards import load, to_bytes
from tavernkit.examples import example_path
from tavernkit.models import Model
from tavernkit.server.accounts import Accounts
from tavernkit.server.config import ServerConfig
from tavernkit.server.imports.jobs import Imports
from tavernkit.server.imports.served_folders import ServedFolders, WriteBack
from tavernkit.server.keys import Keys
from tavernkit.server.library.library import SILLY_TAVERN, Library
from tavernkit.server.metrics import Metrics
from tavernkit.server.retention import Retention
from tavernkit.server.storage.database import Database, advisory_lock, database_errors
from tavernkit.server.storage.items import Kind, save_item
from tavernkit.server.storage.tables import ApiKey, Item
from tavernkit.server.turns.turns import Turns
from tavernkit.server.upstreams.upstreams import SecretBox, UpstreamKeys, Upstreams


class Service:
    """The parts of a server, wired together."""

    def __init__(self, config: ServerConfig, *, models: Mapping[str, Model] | None = None) -> None:
        """Make the parts; ``start`` starts them.

        Args:
            config: The settings.
            models: Models that replace upstreams by name, for tests.
        """
        self.config = config
        self.database = Database(config.database_url)
        self.metrics = Metrics()
        self.library = Library()
        self.upstreams = Upstreams(config, models=models)
        self.keys = Keys(config, self.database)
        self.secrets = SecretBox(config.secret_key.get_secret_value() if config.secret_key is not None else None)
        self.upstream_keys = UpstreamKeys(self.database, self.secrets, self.upstreams)
        self.accounts = Accounts()
        self.turns = Turns(
            config, self.database, self.library, self.upstreams, self.metrics, self.upstream_keys, self.accounts
        )
        self.imports = Imports(config, self.database)
        self.folders = ServedFolders(config, self.database)
        self.write_back = WriteBack(config, self.database, self.folders.note_written)
        self.retention = Retention(config, self.database, self.metrics)

    async def prepare(self) -> None:
        """Update the tables and check that served folders exist, without reading them.

        Raises:
            ConfigError: The database cannot be used, or a folder does not exist.
        """
        with database_errors():
            await self.database.migrate()
        self.folders.check()

    async def start(self) -> None:
        """Prepare the database and start background work."""
        with database_errors():
            await self.database.migrate()
            await self.folders.start()
            if self.config.example:
                await self._add_example()
            await self.upstream_keys.refresh()
        self.retention.start()
        self.write_back.start()

    async def stop(self) -> None:
        """Let turns finish and close everything."""
        await self.folders.stop()
        await self.retention.stop()
        await self.imports.stop()
        await self.turns.stop()
        await self.write_back.stop()
        await self.upstreams.aclose()
        await self.database.close()

    async def needs_first_key(self) -> bool:
        """True if keys are required and there is none yet."""
        if not self.config.keys_required or self.config.admin_key is not None:
            return False
        async with self.database.read() as connection:
            query = select(func.count()).select_from(ApiKey).where(ApiKey.revoked_at.is_(None))
            return (await connection.execute(query)).scalar_one() == 0

    async def _add_example(self) -> None:
        """Put the shipped character, its book and its preset into an empty library."""
        async with self.database.write() as connection:
            await advisory_lock(connection, "example")  # servers on several machines may start at once
            if (await connection.execute(select(func.count()).select_from(Item))).scalar_one():
                return
            for kind, name, file, filename in _example_files():
                await save_item(connection, kind, name=name, platform=SILLY_TAVERN, file=file, filename=filename)


def _example_files() -> list[tuple[Kind, str, bytes, str]]:
    book = json.loads(example_path("tidewatch.json").read_bytes())
    card = load(example_path("aria.json")).character
    # SillyTavern links a character to a world by its name.
    linked = card.replace(extensions={**card.extensions, "world": book["name"]})
    return [
        ("character", card.name, to_bytes(linked, "json"), "aria.json"),
        ("book", str(book["name"]), example_path("tidewatch.json").read_bytes(), "tidewatch.json"),
        ("preset", Path("preset.json").stem, example_path("preset.json").read_bytes(), "preset.json"),
    ]
