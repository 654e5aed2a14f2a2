from __future__ import annotations

from urllib.parse import urlsplit

from tavernkit.silly_tavern.providers import Connection, SillyTavernConfig, chat_request
from tests.conformance.runner import Case


def run(case: Case) -> object:
    body, config = case.input["body"], SillyTavernConfig.from_yaml(case.input["config"])
    request = chat_request(body, Connection(key="<key>"), config).masked()
    address = urlsplit(request.url)
    query = f"?{address.query}" if address.query else ""
    # The recorder kept few headers.
    headers = {name: value for name, value in request.headers.items() if name in case.expected["headers"]}
    return {"path": address.path + query, "headers": headers, "body": request.body}
