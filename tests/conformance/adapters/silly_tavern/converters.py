from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tavernkit.silly_tavern.providers._chat import shared
from tavernkit.silly_tavern.providers._chat.claude import cache_at_depth, claude_budget, convert_claude
from tavernkit.silly_tavern.providers._chat.google import convert_google, google_budget
from tavernkit.silly_tavern.providers._chat.message_forms import (
    MergeOptions,
    convert_claude_text,
    merge_messages,
    post_process,
    to_text_prompt,
)
from tavernkit.silly_tavern.providers._chat.messages import (
    MessageConversionError,
    PromptNames,
    ToolArgumentsError,
)
from tavernkit.silly_tavern.providers._chat.own import (
    add_reasoning_content,
    convert_ai21,
    convert_cohere,
    convert_deepseek,
    convert_mistral,
    convert_xai,
)
from tavernkit.silly_tavern.providers._chat.shared import add_assistant_prefix
from tavernkit.silly_tavern.providers._request import SillyTavernConfig
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
    "cachingAtDepthForOpenRouterClaude": lambda g, n, c: shared.cache_at_depth(g["messages"], g["depth"], g["ttl"]),
    "cachingSystemPromptForOpenRouter": lambda g, n, c: shared.cache_system_prompt(g["messages"], g.get("ttl")),
    "calculateClaudeBudgetTokens": lambda g, n, c: claude_budget(
        g["maxTokens"], g["reasoningEffort"], stream=g["stream"], adaptive=g["isAdaptiveModel"]
    ),
    "calculateGoogleBudgetTokens": lambda g, n, c: google_budget(g["maxTokens"], g["reasoningEffort"], g["model"]),
    "embedOpenRouterMedia": lambda g, n, c: (
        shared.embed_media(g["messages"]) if g.get("options", {}).get("audio", True) else g["messages"]
    ),
    "addReasoningContentToToolCalls": lambda g, n, c: add_reasoning_content(g["messages"]),
    "pipeline:deepseek": lambda g, n, c: convert_deepseek(g["messages"], tools=g.get("tools"), names=n, config=c),
    "addOpenRouterSignatures": lambda g, n, c: shared.add_signatures(g["messages"], g["model"], c),
}
