from __future__ import annotations

from tavernkit.errors import WarningLog
from tavernkit.risu_ai import ModuleServer, RisuModule, module_servers

URL = "https://tools.example/mcp"


def module(mcp: object) -> RisuModule:
    return RisuModule.from_json({"id": "m", "name": "Weather", "mcp": mcp})


def test_no_server_of_a_module_is_asked_unless_it_is_allowed() -> None:
    log = WarningLog()
    assert module_servers([module({"url": URL})], warn=log) == ()
    assert URL in log.messages[0]
    assert module_servers([module({"url": URL}), module(URL)], allow=[URL]) == (ModuleServer(URL, "Weather"),)


def test_modules_without_a_server_have_none() -> None:
    log = WarningLog()
    assert module_servers([module(None), module(3), module({}), module({"url": ""})], allow=[URL], warn=log) == ()
    assert log.messages == ()
