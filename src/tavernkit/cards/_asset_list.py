"""The list of assets in a V3 card: what each is and where to find it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, Json, JsonObject, is_mapping, is_sequence, thaw_object
from tavernkit.cards._fields import (
    Field,
    Fields,
    empty_object,
    frozen,
    ignore,
    kind,
    read_text,
)
from tavernkit.errors import Warn, log_warning


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetEntry:
    """One item of a card's ``assets``; ``uri`` says where the bytes are."""

    type: str = ""
    """What it is for: ``icon``, ``emotion``, ``background``, ``user_icon`` or a custom name."""
    uri: str = ""
    name: str = ""
    """The name by which the card refers to it."""
    ext: str = ""
    """The file ending, without the dot."""
    raw: FrozenObject = dataclasses.field(default_factory=empty_object)
    """The JSON that it was read from; unknown keys survive."""
    pristine: bool = dataclasses.field(default=False, init=False, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, where: str = "", warn: Warn = log_warning) -> AssetEntry:
        """Read one element of ``assets``.

        Args:
            data: The element.
            where: Its location in the file, for warnings.
            warn: Called with each warning.
        """
        raw = frozen(data)
        return ASSET_FIELDS.make(cls, raw, where, warn, raw=raw)

    def to_json(self) -> JsonObject:
        """Write the element; unchanged fields stay as they were read."""
        if self.pristine:
            return thaw_object(self.raw)
        return ASSET_FIELDS.write(self, AssetEntry.from_json(self.raw, warn=ignore), self.raw)

    def replace(self, **changes: Any) -> AssetEntry:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def read_assets(value: object, where: str, warn: Warn) -> tuple[AssetEntry, ...] | None:
    """Read a card's ``assets``; absent is not the same as empty (absent means the default icon)."""
    if value is None:
        return None
    if not is_sequence(value):
        warn(f"{where} is {kind(value)} where a list is expected; it was left out")
        return None
    entries: list[AssetEntry] = []
    for index, item in enumerate(value):
        if is_mapping(item):
            raw = frozen(item)
            entries.append(ASSET_FIELDS.make(AssetEntry, raw, f"{where}/{index}", warn, raw=raw))
        else:
            warn(f"{where}/{index} is {kind(item)} where an asset is expected; it was left out")
    return tuple(entries)


def write_assets(assets: object) -> Json:
    """Write a card's ``assets``."""
    if not is_sequence(assets):
        return None
    return [asset.to_json() for asset in assets if isinstance(asset, AssetEntry)]


ASSET_FIELDS = Fields(
    Field("type", "", read_text),
    Field("uri", "", read_text),
    Field("name", "", read_text),
    Field("ext", "", read_text),
)
