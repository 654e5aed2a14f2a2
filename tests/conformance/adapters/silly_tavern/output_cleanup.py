"""The clean-up of replies, and templates found by a model's chat template."""

from __future__ import annotations

from typing import Any

from tavernkit.silly_tavern._chat.output_cleanup import CleanUp, StopInput, clean_up, custom_stop_strings, stop_strings
from tavernkit.silly_tavern._files.settings import PowerUser
from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._templates.selection import template_for_chat_template
from tavernkit.silly_tavern._templates.templates import ContextTemplate, InstructTemplate
from tests.conformance.runner import Case

ENGINE = MacroEngine()


def run(case: Case) -> object:
    given = case.input
    if given["function"] == "derive_templates":
        name = template_for_chat_template(given["chat_template"], given["hash"])
        return {"context": name, "instruct": name}
    return {"result": clean_up(given["text"], options(given))}


def options(given: Any) -> CleanUp:
    instruct = InstructTemplate.from_json(given["instruct"])
    switches = given["power_user"]
    power_user = PowerUser.from_json(switches, warn=ignore)
    context = ContextTemplate.from_json({**given["context"], "single_line": switches["single_line"]})
    environment = MacroEnvironment(user_name=given["user"], character_name=given["char"])

    def expand(text: str) -> str:
        return ENGINE.expand(text, environment, warn=ignore)

    names = {"user_name": given["user"], "character_name": given["char"]}
    members = given.get("group", [])
    stops = stop_strings(
        StopInput(
            instruct=instruct,
            context=context,
            members=members,
            impersonate=given["is_impersonate"],
            custom=custom_stop_strings(power_user.custom_stopping_strings, ignore),
            expand=expand,
            expand_custom=power_user.custom_stopping_strings_macro,
            **names,
        )
    )
    return CleanUp(
        impersonate=given["is_impersonate"],
        continuing=given["is_continue"],
        display_incomplete_sentences=given["display_incomplete_sentences"],
        include_user_prompt_bias=given["include_user_prompt_bias"],
        trim_names=given["trim_names"],
        trim_wrong_names=given["trim_wrong_names"],
        trim_sentences=switches["trim_sentences"],
        instruct=instruct,
        power_user=power_user,
        stop_strings=stops,
        members=members,
        expand=expand,
        **names,
    )


def ignore(_message: str) -> None:
    pass
