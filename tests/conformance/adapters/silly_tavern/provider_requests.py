from __future__ import annotations

from urllib.parse import urlsplit

from tavernkit.silly_tavern.providers.chat import build_request
from tavernkit.silly_tavern.providers.config import ServerConfig
from tests.conformance.runner import Case


def run(case: Case) -> object:
    body, raw = case.input["body"], case.input["config"]
    config = ServerConfig(
        prompt_placeholder=raw["promptPlaceholder"],
        gemini_api_version=raw["gemini.apiVersion"],
        gemini_thought_signatures=raw.get("gemini.thoughtSignatures", True),
        mistral_enable_prefix=raw.get("mistral.enablePrefix", False),
        claude_enable_system_prompt_cache=raw["claude.enableSystemPromptCache"],
        claude_caching_at_depth=raw["claude.cachingAtDepth"],
        claude_extended_ttl=raw.get("claude.extendedTTL", False),
        claude_enable_adaptive_thinking=raw["claude.enableAdaptiveThinking"],
    )
    request = build_request(body, config)
    return {"path": recorded_path(body, request.path), "headers": request.headers, "body": request.body}


def recorded_path(body: dict[str, str], path: str) -> str:
    """The recorder saw the path behind the proxy's root, and Google's key (masked) in the query."""
    if body["chat_completion_source"] in ("makersuite", "vertexai"):
        method, _, query = path.partition("?")
        return f"{method}?key=<key>" + (f"&{query}" if query else "")
    if "custom_url" in body:
        return urlsplit(body["custom_url"]).path + path
    return "/" + path
