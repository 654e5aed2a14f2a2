"""Modules: ``.risum`` files, JSON, lorebooks (of other programs too) or regex files as modules; their MCP servers."""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import json_stringify
from tavernkit._values import JsonObject, is_mapping, is_sequence, thaw, thaw_object
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._risu_ai.importing import asset_path
from tavernkit.cards._risum import MAGIC, MODULE_TYPE, Module, read_risum, write_risum
from tavernkit.cards._source import BytesSource, FileContent, called, read_file, stem
from tavernkit.cards.errors import RisumError
from tavernkit.errors import ConfigError, Warn, log_warning, refuse_warning
from tavernkit.risu_ai._files.file_kinds import refuse_foreign
from tavernkit.risu_ai._lorebook.book import import_lorebook
from tavernkit.risu_ai._objects import RisuModule


def _new_id() -> str:
    return str(uuid.uuid4())


def read_module(
    source: FileContent,
    *,
    name: str = "",
    new_id: Callable[[], str] | None = _new_id,
    warn: Warn = log_warning,
    strict: bool = False,
) -> RisuModule:
    """Read a module file of any kind.

    RisuAI gives an imported module a new id, and its assets the paths it keeps them at; pass ``new_id=None`` to keep
    the file's (a file without an id still gets one), or your own function.
    ``name`` is the name of a module made from a lorebook or regex file. Raises ``RisumError`` for other files.

    Args:
        source: A path or the file's bytes.
        name: The module's name, for files that have none.
        new_id: Makes the module's id; None keeps the file's.
        warn: Called with each warning; by default they are logged.
        strict: Raise at the first warning.
    """
    data = read_file(source, DEFAULT_LIMITS.max_file_bytes, limit="max_file_bytes")
    warn = refuse_warning if strict else warn
    content = _content(data, called(source), name or stem(source), warn, imports=new_id is not None)
    if new_id is not None:
        content["id"] = new_id()
    elif not content.get("id"):
        # In RisuAI's format, and the same for the same file.
        content["id"] = str(uuid.UUID(bytes=hashlib.sha256(data).digest()[:16], version=4))
    return RisuModule.from_json(content)


def _content(data: bytes, what: str, name: str, warn: Warn, *, imports: bool) -> JsonObject:
    if data[: len(MAGIC)] == MAGIC:
        module = read_risum(BytesSource(data), DEFAULT_LIMITS, warn)
        return _with_paths(module) if imports else module.to_json()
    refuse_foreign(data, what, "a module", RisumError)
    value = parse_json(data, what=what, warn=warn)
    if not is_mapping(value):
        raise RisumError("the file contains no RisuAI module")
    kind, items = value.get("type"), value.get("data")
    if kind == MODULE_TYPE:
        inner = value.get("module")
        return thaw_object(inner if is_mapping(inner) else {key: item for key, item in value.items() if key != "type"})
    if (kind == "risu" and is_sequence(items)) or "entries" in value:
        return {"name": name, "description": "", "lorebook": [*import_lorebook(value, warn=warn)]}
    if kind == "regex" and is_sequence(items):
        return {"name": name, "description": "", "regex": thaw(items)}
    raise RisumError("the file contains neither a RisuAI module nor a lorebook or regex file")


def _with_paths(module: Module) -> JsonObject:
    content = module.to_json()
    listed = content.get("assets")
    for entry, asset in zip(listed if isinstance(listed, list) else (), module.assets, strict=False):
        if isinstance(entry, list) and len(entry) > 1:
            entry[1] = asset_path(asset.read())
    return content


def write_module(module: RisuModule | Mapping[str, object], suffix: str = ".risum") -> bytes:
    """Write a module as ``.risum`` or ``.json``. A module's JSON refers to its assets but does not contain them.

    Args:
        module: The module, or its JSON object.
        suffix: ``.risum`` or ``.json``.

    Raises:
        ConfigError: The suffix is unknown.
    """
    content = thaw_object(module.raw if isinstance(module, RisuModule) else module)
    if suffix == ".json":
        return json_stringify({"type": MODULE_TYPE, **content}).encode()
    if suffix != ".risum":
        raise ConfigError(f"a module is written as .risum or .json, not {suffix!r}")
    out = io.BytesIO()
    write_risum(out, Module.from_json(content))
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class ModuleServer:
    """A tool server of a module: connect to ``url`` and add its tools to your tool loop."""

    url: str
    module: str
    """The name of the module."""


def module_servers(
    modules: Iterable[RisuModule], *, allow: Collection[str] = (), warn: Warn = log_warning
) -> tuple[ModuleServer, ...]:
    """List the allowed servers of modules, without duplicates.

    Args:
        modules: The modules that are switched on.
        allow: The allowed addresses. Modules are untrusted, so nothing is allowed by default.
        warn: Called with messages about servers that are not allowed.
    """
    found: dict[str, ModuleServer] = {}
    for module in modules:
        stated = module.raw.get("mcp")
        url = stated.get("url") if is_mapping(stated) else stated
        if not isinstance(url, str) or not url:
            continue
        name = module.name or module.id
        if url in allow:
            found.setdefault(url, ModuleServer(url, name))
        else:
            warn(f"the module {name[:80]!r} wants tools of {url[:200]!r}, which is not allowed: they are left out")
    return tuple(found.values())
