from __future__ import annotations

import re
from random import Random
from urllib.parse import urlsplit

from tavernkit.silly_tavern.providers import Connection, RequestRefusedError, SillyTavernConfig, chat_request
from tests.conformance.runner import Case

CONNECTION = Connection(
    key="<key>", access_token="<access token>", project="orla-project", cached_models=("google/gemini-2.5-pro",)
)
"""What the recorder's server had."""
HOSTS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "claude",
    "openrouter.ai": "openrouter",
    "api.ai21.com": "ai21",
    "generativelanguage.googleapis.com": "makersuite",
    "aiplatform.googleapis.com": "vertexai",
    "api.mistral.ai": "mistralai",
    "api.cohere.ai": "cohere",
    "api.perplexity.ai": "perplexity",
    "api.groq.com": "groq",
    "llm.chutes.ai": "chutes",
    "api.electronhub.ai": "electronhub",
    "nano-gpt.com": "nanogpt",
    "api.deepseek.com": "deepseek",
    "api.aimlapi.com": "aimlapi",
    "api.x.ai": "xai",
    "gen.pollinations.ai": "pollinations",
    "text.pollinations.ai": "pollinations_anonymous",
    "api.moonshot.ai": "moonshot",
    "api.fireworks.ai": "fireworks",
    "api.z.ai": "zai",
    "api.siliconflow.com": "siliconflow",
    "api.siliconflow.cn": "siliconflow_cn",
    "api.minimax.io": "minimax",
    "api.minimaxi.com": "minimax_cn",
    "api.cloudflare.com": "workers_ai",
}
"""The recorder's names for hosts."""
OPAQUE = {"x-session-affinity": "<affinity>"}


def run(case: Case) -> object:
    given = case.input
    config = SillyTavernConfig.from_yaml(given["config"])
    try:
        request = chat_request(given["body"], CONNECTION, config, random=Random(0))
    except RequestRefusedError as refusal:
        return {"refused": {"status": refusal.status, "body": refusal.answer}}
    address = urlsplit(request.url)
    body = dict(request.body)
    if case.expected.get("body", {}).get("seed") == "<random>":
        seed = body["seed"]
        assert isinstance(seed, int)
        assert 0 <= seed < 99999999
        body["seed"] = "<random>"
    return {
        "method": request.method,
        "host": recorded_host(address.netloc),
        "path": address.path + (f"?{address.query}" if address.query else ""),
        "headers": {name: OPAQUE.get(name, value) for name, value in request.headers.items()},
        "body": body,
    }


def recorded_host(host: str) -> str:
    region = re.fullmatch(r"(.+)-aiplatform\.googleapis\.com", host)
    return f"vertexai:{region[1]}" if region else HOSTS.get(host, host)
