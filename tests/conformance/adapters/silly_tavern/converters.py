from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tavernkit.silly_tavern.providers._chat.own import convert_ai21, convert_cohere, convert_xai
from tavernkit.silly_tavern.providers._config import SillyTavernConfig
from tavernkit.silly_tavern.providers._converters import openrouter
from tavernkit.silly_tavern.providers._converters.claude import cache_at_depth, convert_claude
from tavernkit.silly_tavern.providers._converters.claude_text import convert_claude_text
from tavernkit.silly_tavern.providers._converters.google import convert_google
from tavernkit.silly_tavern.providers._converters.messages import MessageConversionError, ToolArgumentsError
from tavernkit.silly_tavern.providers._converters.mistral import convert_mistral
from tavernkit.silly_tavern.providers._converters.names import PromptNames
from tavernkit.silly_tavern.providers._converters.post_process import MergeOptions, merge_messages, post_process
from tavernkit.silly_tavern.providers._converters.reasoning import claude_budget, google_budget
from tavernkit.silly_tavern.providers._converters.text import (
    add_assistant_prefix,
    add_reasoning_content,
    convert_deepseek,
    to_text_prompt,
)
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    if given["function"] == "getPromptNames":
        names = PromptNames.from_request(given["body"])
        return {
            "result": {
                "charName": names.char_name,
                "userName": names.user_name,
                "groupNames": list(names.group_names),
            },
            "starts_with_group_name": [names.starts_with_group_name(probe) for probe in given["probes"]],
        }
    raw = given["config"]
    config = SillyTavernConfig(
        prompt_placeholder=raw["promptPlaceholder"],
        gemini_thought_signatures=raw["gemini.thoughtSignatures"],
        mistral_enable_prefix=raw["mistral.enablePrefix"],
    )
    names = PromptNames.from_request(given.get("names", {}))
    try:
        return {"result": FUNCTIONS[given["function"]](given, names, config)}
    except ToolArgumentsError:
        return {"throws": "SyntaxError"}
    except MessageConversionError:
        return {"throws": "TypeError"}


def claude(given: Any, names: PromptNames, config: SillyTavernConfig) -> object:
    prompt = convert_claude(
        given["messages"],
        prefill=given["prefill"],
        use_system_prompt=given["useSysPrompt"],
        use_tools=given["useTools"],
        names=names,
        config=config,
    )
    return {"messages": prompt.messages, "systemPrompt": prompt.system_prompt}


def claude_text(given: Any, names: PromptNames, config: SillyTavernConfig) -> object:
    return convert_claude_text(
        given["messages"],
        add_assistant_postfix=given["addAssistantPostfix"],
        prefill=given["addAssistantPrefill"],
        with_system_prompt_support=given["withSysPromptSupport"],
        use_system_prompt=given["useSystemPrompt"],
        system_human_message=given["addSysHumanMsg"],
        exclude_prefixes=given["excludePrefixes"],
    )


def google(given: Any, names: PromptNames, config: SillyTavernConfig) -> object:
    prompt = convert_google(
        given["messages"], model=given["model"], use_system_prompt=given["useSysPrompt"], names=names, config=config
    )
    return {"contents": prompt.contents, "system_instruction": {"parts": prompt.system_parts}}


Function = Callable[[Any, PromptNames, SillyTavernConfig], object]
FUNCTIONS: dict[str, Function] = {
    "addAssistantPrefix": lambda g, n, c: add_assistant_prefix(g["messages"], g.get("tools"), g["property"]),
    "postProcessPrompt": lambda g, n, c: post_process(g["messages"], g["type"], n, c),
    "mergeMessages": lambda g, n, c: merge_messages(g["messages"], n, MergeOptions(**g["options"]), c),
    "convertClaudeMessages": claude,
    "convertClaudePrompt": claude_text,
    "convertGooglePrompt": google,
    "convertCohereMessages": lambda g, n, c: {"chatHistory": convert_cohere(g["messages"], names=n, config=c)},
    "convertAI21Messages": lambda g, n, c: convert_ai21(g["messages"], names=n, config=c),
    "convertMistralMessages": lambda g, n, c: convert_mistral(g["messages"], names=n, config=c),
    "convertXAIMessages": lambda g, n, c: convert_xai(g["messages"], names=n),
    "convertTextCompletionPrompt": lambda g, n, c: to_text_prompt(g["messages"]),
    "cachingAtDepthForClaude": lambda g, n, c: cache_at_depth(g["messages"], g["depth"], g["ttl"]),
    "cachingAtDepthForOpenRouterClaude": lambda g, n, c: openrouter.cache_at_depth(g["messages"], g["depth"], g["ttl"]),
    "cachingSystemPromptForOpenRouter": lambda g, n, c: openrouter.cache_system_prompt(g["messages"], g.get("ttl")),
    "calculateClaudeBudgetTokens": lambda g, n, c: claude_budget(
        g["maxTokens"], g["reasoningEffort"], stream=g["stream"], adaptive=g["isAdaptiveModel"]
    ),
    "calculateGoogleBudgetTokens": lambda g, n, c: google_budget(g["maxTokens"], g["reasoningEffort"], g["model"]),
    "embedOpenRouterMedia": lambda g, n, c: openrouter.embed_media(
        g["messages"], audio=g.get("options", {}).get("audio", True)
    ),
    "addReasoningContentToToolCalls": lambda g, n, c: add_reasoning_content(g["messages"]),
    "pipeline:deepseek": lambda g, n, c: convert_deepseek(g["messages"], tools=g.get("tools"), names=n, config=c),
    "addOpenRouterSignatures": lambda g, n, c: openrouter.add_signatures(g["messages"], g["model"], c),
}
