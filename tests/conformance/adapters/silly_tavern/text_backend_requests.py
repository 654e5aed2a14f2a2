from __future__ import annotations

from urllib.parse import urlsplit

from tavernkit.silly_tavern.providers import Connection, SillyTavernConfig, text_request
from tests.conformance.runner import Case

BACKENDS: dict[str, str] = {"novel": "novelai"}
HOSTS = {
    "neuro.mancer.tech": "mancer",
    "api.together.xyz": "togetherai",
    "api.totalgpt.ai": "infermaticai",
    "dreamgen.com": "dreamgen",
    "openrouter.ai": "openrouter",
    "api.featherless.ai": "featherless",
    "api.novelai.net": "novelai",
    "text.novelai.net": "novelai_text",
}
"""The recorder's names for hosts."""


def run(case: Case) -> object:
    given = case.input
    api: str = given["page"]["api"]
    config = SillyTavernConfig.from_yaml(given["config"])
    request = text_request(BACKENDS.get(api, api), given["body"], Connection(key="<key>"), config)
    address = urlsplit(request.url)
    return {
        "method": request.method,
        "host": HOSTS.get(address.netloc, address.netloc),
        "path": address.path,
        "headers": request.headers,
        "body": request.body,
    }
