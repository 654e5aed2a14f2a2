"""The MCP servers of modules. None is used unless the application allows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tavernkit._dataclass import dataclass
from tavernkit._values import is_mapping
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._objects import RisuModule


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
