"""What programs pass of a wrong kind is refused at once, by name, wherever it is passed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tavernkit import Character, ConfigError, User
from tavernkit import silly_tavern as st
from tavernkit.errors import FileFormatError, InvalidPresetError
from tavernkit.prompt import InjectionRegistry, Message
from tests.wrong_arguments import Call, InFolder, Odd, Sweep

UNCALLED: Mapping[str, str] = {
    "Diagnostic": "a result: nobody makes one",
    "WorldInfoResult": "a result: nobody makes one",
    "WorldInfoResult.of": "takes a finished scan, which only the engine has",
    "MacroEngine.run": "what expand and evaluate run",
    "MacroEngine.resolve": "what expand and evaluate run",
    "MacroEngine.compile": "what expand and evaluate run",
    "MacroEngine.complete": "what expand and evaluate run",
    "MacroEnvironment.place_in_chat": "what macros ask of it",
    "MacroRegistry.lookup": "what the parser asks of it",
    "DataFolder.persona": "takes what builder takes",
    "Settings.of_extension": "what builds ask of it",
    "ChosenPersona": "a result: nobody makes one",
    "CharacterExtras": "a plain value",
    "VectorHit": "a plain value",
    "VectorCall": "a result: nobody makes one",
    "VectorResults": "a plain value",
    "VectorResults.from_json": "takes any JSON object",
    "TokenizerFiles": "checks its folder by hand",
    "TokenizerFiles.find": "what counting asks of it",
}

ANYTHING: Mapping[str, str] = {
    "ChatMessage.force_avatar": "as a file has it: only its truth counts",
    "MacroEnvironment.main_chat": "as a chat's header has it: only its truth counts",
    "MacroEnvironment.first_included_message_id": "as a chat's header has it",
    "MacroEnvironment.set_var.value": "a variable may have any value",
    "PromptOrder.character_id": "as a file has it: what is not 100001 does not count",
    "RegexScripts.apply.text": "what is not text becomes empty text, as in SillyTavern",
    "WorldInfoResult.explain.uid": "as a file has it: one that no entry has is refused as unknown",
}

DOCUMENTS: Mapping[str, type[Exception]] = {
    "ContextTemplate.from_json.data": st.InvalidContextTemplateError,
    "InstructTemplate.from_json.data": st.InvalidInstructError,
    "Preset.from_json.data": InvalidPresetError,
    "ReasoningSettings.from_json.data": FileFormatError,
    "SystemPrompt.from_json.data": FileFormatError,
    "TemplateBundle.from_json.data": FileFormatError,
}
"""Parsed files of any kind: what is no object has the format's own error."""


NEW_FILE = InFolder(lambda folder: folder / "written")


def as_arguments(record: Any) -> dict[str, Any]:
    return {each.name: getattr(record, each.name) for each in fields(record)}


def expand(text: str, /, *, character: str | None = None, escape: Callable[[str], str] | None = None) -> str:
    return text


def template_calls() -> Iterator[tuple[str, Call]]:
    for cls in (st.ContextTemplate, st.InstructTemplate, st.ReasoningSettings, st.SystemPrompt):
        name = cls.__name__
        yield name, (cls, {})
        yield f"{name}.load", (cls.load, {"source": b"{}"})
        yield f"{name}.from_json", (cls.from_json, {"data": {}})
        yield f"{name}.migrated", (cls.migrated, {"data": {}})
        yield f"{name}.replace", (cls().replace, {"name": "Mine"})
        yield f"{name}.save", (cls().save, {"path": NEW_FILE})


def data_folder_calls() -> Iterator[tuple[str, Call]]:
    yield "DataFolder", (st.DataFolder, {"path": InFolder(Path)})
    folder = InFolder(data_folder)
    for method, arguments in {
        "character": {"name": "Lyra"},
        "avatar": {"name": "Lyra"},
        "chats": {"character": "Lyra"},
        "chat": {"character": "Lyra", "name": "first"},
        "group": {"group_id": "g1"},
        "group_chat": {"chat_id": "g-chat"},
        "members": {"group": st.Group()},
        "preset": {"name": "Mine"},
        "instruct_template": {"name": "Mine"},
        "context_template": {"name": "Mine"},
        "system_prompt": {"name": "Mine"},
        "world": {"name": "sea"},
        "builder": {"character": "Lyra", "chat": "first"},
    }.items():
        yield f"DataFolder.{method}", (getattr(st.DataFolder, method), {"self": folder, **arguments})


def data_folder(path: Path) -> st.DataFolder:
    for name, content in {
        "characters/Lyra.json": {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Lyra"}},
        "chats/Lyra/first.jsonl": {"mes": "Good evening."},
        "groups/g1.json": {"id": "g1"},
        "group chats/g-chat.jsonl": {"mes": "Good evening."},
        "OpenAI Settings/Mine.json": {},
        "instruct/Mine.json": {},
        "context/Mine.json": {},
        "sysprompt/Mine.json": {},
        "worlds/sea.json": {"entries": {}},
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(json.dumps(content), encoding="utf-8")
    return st.DataFolder(path)


def chat_calls() -> dict[str, Call]:
    message = st.ChatMessage(name="Lyra", mes="Good evening.")
    return {
        "ChatFile": (st.ChatFile, {"messages": (message,)}),
        "ChatFile.load": (st.ChatFile.load, {"source": b""}),
        "ChatFile.loads": (st.ChatFile.loads, {"text": ""}),
        "ChatFile.save": (st.ChatFile().save, {"path": NEW_FILE}),
        "ChatFile.with_messages": (st.ChatFile().with_messages, {"messages": (message,)}),
        "ChatFile.with_metadata": (st.ChatFile().with_metadata, {"scenario": "A tavern."}),
        "ChatMessage": (st.ChatMessage, {}),
        "ChatMessage.from_json": (st.ChatMessage.from_json, {"data": {}}),
        "ChatMessage.from_message": (
            st.ChatMessage.from_message,
            {"message": Message(role="user", content="Hi"), "user_name": "Mira", "character_name": "Lyra"},
        ),
        "ChatMessage.replace": (message.replace, {"mes": "Hi"}),
        "ChatMetadata": (st.ChatMetadata, {}),
        "ChatMetadata.from_json": (st.ChatMetadata.from_json, {"data": {}}),
        "ChatMetadata.get": (st.ChatMetadata().get, {"key": "note_prompt"}),
        "ChatMetadata.replace": (st.ChatMetadata().replace, {"note_depth": 4}),
        "Group": (st.Group, {}),
        "Group.from_json": (st.Group.from_json, {"data": {}}),
        "Group.load": (st.Group.load, {"source": b"{}"}),
        "Group.replace": (st.Group().replace, {"members": ["Lyra"]}),
        "GroupDecision": (st.GroupDecision, {}),
        "GroupDecision.from_dict": (st.GroupDecision.from_dict, {"value": {}}),
        "Persona": (st.Persona, {}),
        "Persona.around_note": (st.Persona().around_note, {"note": ""}),
    }


def preset_calls() -> dict[str, Call]:
    preset = st.Preset.default()
    prompt = st.PresetPrompt("main")
    return {
        "Preset": (st.Preset, as_arguments(preset)),
        "Preset.load": (st.Preset.load, {"source": b"{}"}),
        "Preset.from_json": (st.Preset.from_json, {"data": {}}),
        "Preset.from_settings": (st.Preset.from_settings, {"data": {}}),
        "Preset.save": (preset.save, {"path": NEW_FILE}),
        "Preset.get": (preset.get, {"key": "seed"}),
        "Preset.replace": (preset.replace, {"prompts": [prompt]}),
        "Preset.with_model": (preset.with_model, {"model": "gpt-4"}),
        "PresetPrompt": (st.PresetPrompt, {"identifier": "main"}),
        "PresetPrompt.from_json": (st.PresetPrompt.from_json, {"data": {}, "warn": print}),
        "PresetPrompt.replace": (prompt.replace, {"content": "Hi"}),
        "PresetPrompt.triggered_by": (prompt.triggered_by, {"generation_type": "normal"}),
        "OrderEntry": (st.OrderEntry, {"identifier": "main"}),
        "PromptOrder": (st.PromptOrder, {"character_id": 100001, "entries": ()}),
        "PromptOrder.from_json": (st.PromptOrder.from_json, {"data": {}, "warn": print}),
        "export_prompts": (st.export_prompts, {"preset": preset}),
        "import_prompts": (st.import_prompts, {"preset": preset, "data": st.export_prompts(preset)}),
        "Settings": (st.Settings, {}),
        "Settings.load": (st.Settings.load, {"source": b"{}"}),
        "Settings.from_json": (st.Settings.from_json, {"data": {}}),
        "PowerUser": (st.PowerUser, {}),
        "PowerUser.from_json": (st.PowerUser.from_json, {"data": {}, "warn": print}),
        "NoteSettings": (st.NoteSettings, {}),
        "NoteSettings.from_json": (st.NoteSettings.from_json, {"data": {}, "warn": print}),
        "CharacterNote": (st.CharacterNote, {"name": "Lyra", "prompt": ""}),
    }


def text_calls() -> dict[str, Call]:
    live, context = st.InstructTemplate(), st.ContextTemplate()
    names: dict[str, Any] = {"user_name": "Mira", "character_name": "Lyra"}
    stop_input = {"instruct": live, "context": context, "expand": str, **names}
    return {
        "InstructTemplate.with_preset": (live.with_preset, {"preset": live}),
        "ContextTemplate.with_preset": (context.with_preset, {"preset": context}),
        "TemplateBundle": (st.TemplateBundle, {}),
        "TemplateBundle.load": (st.TemplateBundle.load, {"source": b'{"name": "", "content": ""}'}),
        "TemplateBundle.from_json": (st.TemplateBundle.from_json, {"data": {"name": "", "content": ""}}),
        "select_for_model": (st.select_for_model, {"model": "llama", "live": live, "presets": [live]}),
        "template_for_chat_template": (st.template_for_chat_template, {"chat_template": ""}),
        "StopInput": (st.StopInput, stop_input),
        "stop_strings": (st.stop_strings, {"given": st.StopInput(**stop_input)}),
        "custom_stop_strings": (st.custom_stop_strings, {"setting": "[]", "warn": print}),
        "CleanUp": (st.CleanUp, names),
        "clean_up": (st.clean_up, {"text": "Hi", "options": st.CleanUp(**names)}),
        "TextPlan": (st.TextPlan, {}),
        "TextPlan.replace": (st.TextPlan().replace, {"clean_up": str}),
        "TextPlan.fingerprint": (st.TextPlan().fingerprint, {}),
    }


def macro_calls() -> dict[str, Call]:
    engine, environment, registry = st.MacroEngine(), st.MacroEnvironment(), st.MacroRegistry()
    definition = st.default_registry().get("user")
    return {
        "MacroEngine": (st.MacroEngine, {}),
        "MacroEngine.expand": (engine.expand, {"text": "Hi", "environment": environment}),
        "MacroEngine.evaluate": (engine.evaluate, {"text": "Hi", "environment": environment}),
        "MacroEngine.is_plain": (engine.is_plain, {"text": "Hi"}),
        "MacroEnvironment": (st.MacroEnvironment, {}),
        "MacroEnvironment.replace": (environment.replace, {"chat": [st.ChatMessage()]}),
        "MacroEnvironment.get_var": (environment.get_var, {"name": "x"}),
        "MacroEnvironment.set_var": (environment.set_var, {"name": "x", "value": 1}),
        "MacroEnvironment.has_var": (environment.has_var, {"name": "x"}),
        "MacroRegistry": (st.MacroRegistry, {}),
        "MacroRegistry.add": (registry.add, {"definition": definition}),
        "MacroRegistry.register": (registry.register, {"name": "x", "handler": str}),
        "MacroRegistry.macro": (registry.macro, {"name": "y"}),
        "MacroRegistry.get": (registry.get, {"name": "x"}),
        "MacroRegistry.has": (registry.has, {"name": "x"}),
        "MacroRegistry.remove": (registry.remove, {"name": "x"}),
        "Overrides": (st.Overrides, {}),
        "default_registry": (st.default_registry, {}),
    }


def script_calls() -> dict[str, Call]:
    script = st.RegexScript.from_json({"findRegex": "/a/g", "replaceString": "b", "placement": [1]})
    scripts = st.RegexScripts(global_=(script,))
    return {
        "RegexScript": (st.RegexScript, as_arguments(script)),
        "RegexScript.from_json": (st.RegexScript.from_json, {"data": {}}),
        "RegexScript.applies_to": (script.applies_to, {"placement": 1}),
        "RegexScript.run": (script.run, {"text": "a", "expand": expand}),
        "RegexScripts": (st.RegexScripts, {}),
        "RegexScripts.from_settings": (st.RegexScripts.from_settings, {"extension_settings": {}}),
        "RegexScripts.apply": (scripts.apply, {"text": "a", "placement": 1, "expand": expand}),
        "migrate_script": (st.migrate_script, {"value": {}, "new_id": lambda: "1"}),
    }


def lore_calls() -> dict[str, Call]:
    book = st.WorldBook.from_json({"entries": {"0": {"uid": 0, "key": [], "content": "x"}}}, name="sea")
    books, engine = st.SelectedBooks(global_=(book,)), st.WorldInfoEngine()
    given: dict[str, Any] = {"messages": ["Hi"], "books": books, "max_context": 100, "count_tokens": len}
    result = engine.scan(st.ScanInput(**given))
    return {
        "Entry": (st.Entry, {"raw": {}, "world": "sea"}),
        "WorldBook": (st.WorldBook, {"name": "sea", "raw": {}}),
        "WorldBook.from_json": (st.WorldBook.from_json, {"data": {}, "name": "sea"}),
        "WorldBook.loads": (st.WorldBook.loads, {"text": "{}", "name": "sea"}),
        "WorldBook.load": (st.WorldBook.load, {"source": b"{}"}),
        "WorldBook.from_character_book": (st.WorldBook.from_character_book, {"book": {}, "name": "sea"}),
        "WorldBook.dumps": (book.dumps, {}),
        "WorldBook.usable_entries": (book.usable_entries, {}),
        "SelectedBooks": (st.SelectedBooks, {}),
        "ScanInput": (st.ScanInput, given),
        "WorldInfoEngine": (st.WorldInfoEngine, {}),
        "WorldInfoEngine.compile": (engine.compile, {"books": books, "settings": st.WorldInfoSettings()}),
        "WorldInfoEngine.scan": (engine.scan, {"scan_input": st.ScanInput(**given)}),
        "WorldInfoResult.explain": (result.explain, {"uid": 0}),
        "WorldInfoResult.table": (result.table, {}),
        "WorldInfoResult.rows": (result.rows, {}),
        "WorldInfoSettings": (st.WorldInfoSettings, {}),
        "WorldInfoSettings.from_json": (st.WorldInfoSettings.from_json, {"data": {}}),
        "import_world": (st.import_world, {"filename": "sea.json", "content": '{"entries": {}}'}),
    }


def build_calls() -> dict[str, Call]:
    inputs: dict[str, Any] = {"character": Character(name="Lyra"), "user": User(name="Mira"), "message": "Hi"}
    builder, context = st.Builder(**inputs), st.SillyTavernContext(**inputs)
    injection = InjectionRegistry().register("x", "A note.")
    group = st.Group(members=("Lyra",))
    return {
        "Builder": (st.Builder, inputs),
        "Builder.build": (builder.build, {"message": "Hi"}),
        "Builder.decide": (builder.decide, {"group": group, "members": {"Lyra": Character(name="Lyra")}}),
        "Builder.make_state": (builder.make_state, {"context": context}),
        "Builder.run": (builder.run, {"context": context}),
        "build": (st.build, inputs),
        "ChatPlan": (st.ChatPlan, {}),
        "SillyTavernContext": (st.SillyTavernContext, inputs),
        "SillyTavernState": (st.SillyTavernState, {"context": context}),
        "Tool": (st.Tool, {"name": "look"}),
        "ExtensionPrompt": (st.ExtensionPrompt, {"key": "x", "value": ""}),
        "ExtensionPrompt.from_json": (st.ExtensionPrompt.from_json, {"data": {}}),
        "ExtensionPrompt.from_injection": (st.ExtensionPrompt.from_injection, {"injection": injection}),
        "ExtensionPrompt.source": (st.ExtensionPrompt("x", "").source, {"stage": "lore"}),
    }


CALLS: dict[str, Call] = {
    **dict(template_calls()),
    **dict(data_folder_calls()),
    **chat_calls(),
    **preset_calls(),
    **text_calls(),
    **macro_calls(),
    **script_calls(),
    **lore_calls(),
    **build_calls(),
}
INPUTS = sorted(st.SillyTavernContext.input_names())
KEYWORDS: dict[str, list[str]] = dict.fromkeys(("Builder", "Builder.build", "Builder.decide", "build"), INPUTS)
SWEEP = Sweep("tavernkit.silly_tavern", CALLS, UNCALLED, ANYTHING, DOCUMENTS, KEYWORDS)


def test_every_public_name_is_called() -> None:
    SWEEP.assert_complete()


@pytest.mark.parametrize("name", CALLS)
def test_right_arguments_are_taken(name: str) -> None:
    SWEEP.call(name)


@pytest.mark.parametrize(("name", "parameter"), SWEEP.pairs())
def test_wrong_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    SWEEP.assert_refused(name, parameter)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (st.ChatFile().with_messages, "ChatFile.messages must be a list of ChatMessages"),
        (lambda odd: st.ChatFile().with_metadata(scenario=odd), "ChatMetadata.scenario must be text"),
        (lambda odd: st.ChatMessage.from_json({"mes": "Hi"}).replace(mes=odd), "ChatMessage.mes must be text"),
        (
            lambda odd: st.ChatMetadata().replace(note_depth=odd),
            "ChatMetadata.note_depth must be a whole number, a number",
        ),
        (lambda odd: st.Group().replace(members=[odd]), "Group.members must be a list of texts"),
        (lambda odd: st.InstructTemplate().replace(wrap=odd), "InstructTemplate.wrap must be True or False"),
        (lambda odd: st.MacroEnvironment().replace(chat=[st.ChatMessage(), odd]), "MacroEnvironment.chat must be a"),
        (lambda odd: st.Preset.default().replace(prompts=[odd]), "Preset.prompts must be a list of PresetPrompts"),
        (lambda odd: st.PresetPrompt("main").replace(content=odd), "PresetPrompt.content must be text"),
        (lambda odd: st.ChatPlan(chat=[odd]), "ChatPlan.chat must be a list of ChatMessages"),
        (lambda odd: st.TextPlan().replace(clean_up=odd), "TextPlan.clean_up must be a function"),
        (lambda odd: st.Builder(services=odd), "services must be a Services or None"),
        (lambda odd: st.build(books=odd), "books must be a list of WorldBooks"),
        (lambda odd: st.Builder().build(message=odd), "message must be text"),
        (lambda odd: st.Builder().decide(group=odd), "group must be a Group or None"),
        (lambda odd: st.MacroEngine(pre_processors=[odd]), "pre_processors must be a list of Processors"),
        (lambda odd: st.MacroRegistry([odd]), "definitions must be a list of MacroDefinitions"),
        (lambda odd: st.MacroRegistry().register("x", str, aliases=odd), "MacroDefinition.aliases must be a list"),
        (lambda odd: st.MacroRegistry().register("x", str, args=[odd]), "MacroDefinition.args must be a list of Arg"),
    ],
)
def test_wrong_values_of_what_is_changed_or_listed_are_named(change: Callable[[object], object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        change(Odd())


def test_lists_serve_where_tuples_are_kept() -> None:
    book = st.WorldBook("sea", {"entries": {}})
    books: Any = [book]
    engine = st.WorldInfoEngine()
    assert st.SelectedBooks(books).books == (book,)
    assert (
        engine.scan(
            st.ScanInput(messages=[], books=st.SelectedBooks(books), max_context=100, count_tokens=len)
        ).activated
        == ()
    )
    script = st.RegexScript.from_json({"findRegex": "/a/g", "placement": [1], "promptOnly": True})
    listed = st.RegexScript(**{**as_arguments(script), "trim_strings": ["x"], "placement": [1]})
    assert hash(listed.trim_strings) == hash(("x",))
    assert st.RegexScripts([listed]).active == (listed,)  # pyright: ignore[reportArgumentType]  # the list


def test_an_entry_that_is_not_there_is_named() -> None:
    result = st.WorldInfoEngine().scan(
        st.ScanInput(messages=[], books=st.SelectedBooks(), max_context=100, count_tokens=len)
    )
    with pytest.raises(ConfigError, match="no World Info entry"):
        result.explain(5)
