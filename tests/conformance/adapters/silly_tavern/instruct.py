"""Instruct mode, function by function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tavernkit.silly_tavern._chat.card_fields import START_LINE, split_examples
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.output_cleanup import (
    StopInput,
    custom_stop_strings,
    stop_strings,
    template_stop_strings,
)
from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment
from tavernkit.silly_tavern._templates.formatting import ExampleNames, InstructFormatter, Line, format_examples
from tavernkit.silly_tavern._templates.selection import select_for_model
from tavernkit.silly_tavern._templates.templates import ContextTemplate, InstructTemplate, SystemPrompt
from tests.conformance.adapters.silly_tavern.group_inputs import open_group
from tests.conformance.runner import Case

ENGINE = MacroEngine()


class Page:
    """What was open while a function was called."""

    def __init__(self, given: Any) -> None:
        self.args = given["args"]
        self.open_user, self.open_character = given["user"], given["char"]
        self.instruct = InstructTemplate.from_json(given["instruct"])
        self.power_user = given.get("power_user", {})
        self.context = ContextTemplate.from_json(
            {**given["context"], "single_line": self.power_user.get("single_line", False)}
        )
        self.user = self.args.get("name1", given["user"])
        self.character = self.args.get("name2", given["char"])
        self.members = given.get("group", [])
        self.in_group = "group" in given
        self.chat = given.get("chat", [])
        environment = MacroEnvironment(
            user_name=given["user"],
            character_name=given["char"],
            group=open_group(self.members, given["char"]) if self.in_group else None,
            chat=[ChatMessage.from_json(line) for line in self.chat],
            instruct=self.instruct,
            context=self.context,
            system_prompt=SystemPrompt.from_json(given.get("sysprompt", {"enabled": False})),
        )
        names = {"user_name": self.user, "character_name": self.character}
        self.expand: Callable[[str], str] = partial(
            ENGINE.expand, environment=environment, leave=("name",), warn=ignore, **names
        )
        self.formatter = InstructFormatter(self.instruct, self.user, self.character, self.expand, self.in_group)

    @property
    def heading(self) -> str:
        return self.expand(self.context.example_separator) + "\n" if self.context.example_separator else ""


def ignore(_message: str) -> None:
    pass


def run(case: Case) -> object:
    page = Page(case.input)
    return FUNCTIONS[case.input["function"]](page, page.args)


def format_chat(page: Page, args: Any) -> object:
    line = Line(args["name"], args["mes"], args["is_user"], args["is_narrator"], bool(args["force_avatar"]))
    return {"result": page.formatter.message(line, int(args["force_sequence"])).text}


def format_prompt_line(page: Page, args: Any) -> object:
    return {
        "result": page.formatter.reply_line(
            args["name"],
            impersonate=args["is_impersonate"],
            bias=args["prompt_bias"],
            quiet=args["is_quiet"],
            loud=args["is_quiet_to_loud"],
        )
    }


def examples(page: Page, args: Any) -> object:
    names = ExampleNames(
        user=page.open_user,
        character=page.open_character,
        members=page.members,
        in_group=page.in_group,
        written_user=page.user,
        written_character=page.character,
    )
    written = format_examples(args["examples"], page.instruct, names, page.heading, page.expand)
    return {"result": [piece for pieces in written for piece in pieces]}


def format_story_string(page: Page, args: Any) -> object:
    story = args["story_string"]
    before, after = ("", "") if page.context.in_chat else page.formatter.story(story)
    return {"result": before + story + after}


def instruct_stops(page: Page, _args: Any) -> object:
    names = {"user_name": page.user, "character_name": page.character}
    return {"result": template_stop_strings(page.instruct, page.context, expand=page.expand, **names)}


def stopping_strings(page: Page, args: Any) -> object:
    return {
        "result": stop_strings(
            StopInput(
                instruct=page.instruct,
                context=page.context,
                user_name=page.user,
                character_name=page.character,
                members=page.members,
                impersonate=args["is_impersonate"],
                continues_user=args["is_continue"] and bool(page.chat) and page.chat[-1]["is_user"],
                custom=custom_stop_strings(page.power_user.get("custom_stopping_strings", ""), ignore),
                expand=page.expand,
                expand_custom=page.power_user.get("custom_stopping_strings_macro", True),
            )
        )
    }


def parse_examples(page: Page, args: Any) -> object:
    return {"result": split_examples(args["text"], START_LINE if args["is_instruct"] else page.heading)}


def select_instruct_preset(page: Page, args: Any) -> object:
    after = page.instruct.with_preset(InstructTemplate.from_json(args["preset"]))
    return {
        "instruct_after": {"preset": after.name, **{key: getattr(after, key) for key in after.field_names()}},
        "preset_after": InstructTemplate.migrated(args["preset"]),
    }


def auto_select_instruct(page: Page, args: Any) -> object:
    presets = [InstructTemplate.from_json(preset) for preset in args["presets"]]
    selection = select_for_model(
        args["model_id"],
        page.instruct,
        presets,
        mappings=args.get("mappings"),
        context_name=page.context.name,
        warn=ignore,
    )
    return {
        "result": selection.found,
        "selected_preset": selection.instruct.name,
        "enabled": selection.instruct.enabled,
    }


def substitute(page: Page, args: Any) -> object:
    return {"result": page.expand(args["text"])}


FUNCTIONS: dict[str, Callable[[Page, Any], object]] = {
    "format_chat": format_chat,
    "format_prompt_line": format_prompt_line,
    "format_examples": examples,
    "format_story_string": format_story_string,
    "instruct_stops": instruct_stops,
    "stopping_strings": stopping_strings,
    "parse_examples": parse_examples,
    "select_instruct_preset": select_instruct_preset,
    "auto_select_instruct": auto_select_instruct,
    "substitute": substitute,
}
