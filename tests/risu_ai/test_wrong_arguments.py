"""Arguments of a wrong kind: programmers are told at once what to pass."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping

import pytest

from tavernkit import Character, risu_ai
from tavernkit.dialects.attachments import Attachment
from tavernkit.errors import LoreParseError
from tavernkit.prompt import Message
from tavernkit.risu_ai import (
    BuildContext,
    Builder,
    CBSEngine,
    CBSRegistry,
    ChatFile,
    ChatTemplate,
    LorebookEngine,
    LorebookEntry,
    LoreMessage,
    ModelRequest,
    Preset,
    PromptSettings,
    RegexScript,
    RegexScriptRunner,
    RisuCharacter,
    RisuChat,
    RisuContext,
    RisuMessage,
    RisuModule,
    RisuPersona,
    RisuState,
    ScanInput,
    Send,
    Settings,
    ShownInlay,
    TriggerEngine,
)
from tavernkit.risu_ai.cbs import CBSFunction
from tavernkit.risu_ai.triggers import RunOptions
from tests.wrong_arguments import Call, Fresh, InFolder, Odd, Sweep

INPUTS = sorted(BuildContext.input_names())
OPTIONS = sorted(RunOptions.__annotations__)
CHANGES = [name for name in inspect.signature(RisuContext).parameters if name != "self"]
GROUP = RisuCharacter(is_group=True, raw={"characters": ["a"], "characterTalks": [1], "characterActive": [True]})
CARD = Character.from_card({"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Bel"}})


def zero() -> float:
    return 0.0


def calls() -> dict[str, Call]:
    """Every public class, function and method that takes something."""
    context, chat, bel = RisuContext(char="Bel"), RisuChat(), RisuCharacter(name="Bel")
    engine, registry, triggers = CBSEngine(), CBSRegistry(), TriggerEngine()
    builder, made = Builder(), BuildContext()
    state, plan = builder.make_state(made), builder.build()
    module, settings, preset = RisuModule(id="m"), Settings(), Preset()
    entry, script = LorebookEntry(key="a"), RegexScript(pattern="a")
    lore, runner = LorebookEngine(), RegexScriptRunner()
    found = lore.scan(ScanInput(entries=[entry]))
    function = CBSFunction("f", lambda call: "", "s")
    chat_file = b'{"type": "risuChat", "ver": 2, "data": {"message": []}}'

    def model(request: ModelRequest) -> str:
        return "Hi"

    async def answered() -> str:
        return "Hi"

    def async_model(request: ModelRequest) -> Awaitable[str]:
        return answered()

    return {
        "BuildContext": (BuildContext, {}),
        "BuildContext.for_texts": (made.for_texts, {"preset": preset, "speaker": bel}),
        "Builder": (Builder, {}),
        "Builder.build": (builder.build, {}),
        "Builder.decide": (builder.decide, {}),
        "Builder.make_state": (builder.make_state, {"context": made}),
        "Builder.run": (builder.run, {"context": made}),
        "Builder.run_state": (builder.run_state, {"state": state}),
        "Builder.send": (builder.send, {"model": model, "message": "Hi"}),
        "Builder.send_async": (builder.send_async, {"model": async_model, "message": "Hi"}),
        "BuiltInTexts": (risu_ai.BuiltInTexts, {}),
        "CBSEngine": (CBSEngine, {}),
        "CBSEngine.constant": (engine.constant, {"text": "a"}),
        "CBSEngine.evaluate": (engine.evaluate, {"text": "a", "context": context}),
        "CBSEngine.expand": (engine.expand, {"text": "a", "context": context}),
        "CBSRegistry": (CBSRegistry, {"functions": [function]}),
        "CBSRegistry.add": (registry.add, {"function": function}),
        "CBSRegistry.get": (registry.get, {"name": "a"}),
        "CBSRegistry.has": (registry.has, {"name": "a"}),
        "CBSRegistry.register": (registry.register, {"name": "a", "handler": lambda call: ""}),
        "ChatFile": (ChatFile, {"chats": (chat,)}),
        "ChatFile.load": (ChatFile.load, {"source": chat_file}),
        "ChatFile.save": (ChatFile((chat,)).save, {"path": InFolder(lambda folder: folder / "chat.json")}),
        "ChatTemplate": (ChatTemplate, {"text": "a"}),
        "ChatTemplate.compiled": (ChatTemplate.compiled, {"text": "a"}),
        "ChatTemplate.render": (
            ChatTemplate("a").render,
            {"messages": [*plan.prompt_messages(), Message("user", "b")]},
        ),
        "Chunk": (risu_ai.Chunk, {"text": "a"}),
        "Failure": (risu_ai.Failure, {"message": "a"}),
        "FetchReply": (risu_ai.FetchReply, {"status": 200, "text": "a"}),
        "Inlay": (risu_ai.Inlay, {"attachment": Attachment.image(url="https://a.example/b.png")}),
        "InlayData": (risu_ai.InlayData, {"kind": "image", "data": "a"}),
        "LLMReply": (risu_ai.LLMReply, {"kind": "success", "result": "a"}),
        "LoreMessage": (LoreMessage, {"role": "user", "text": "a"}),
        "LorebookEngine.compile": (lore.compile, {"entries": [entry]}),
        "LorebookEngine.scan": (lore.scan, {"scan_input": ScanInput()}),
        "LorebookEntry": (LorebookEntry, {}),
        "LorebookEntry.from_json": (LorebookEntry.from_json, {"data": {"key": "a"}}),
        "LorebookResult.explain": (found.explain, {"entry": "a"}),
        "LorebookResult.rows": (found.rows, {}),
        "LorebookSettings": (risu_ai.LorebookSettings, {"scan_depth": 5, "token_budget": 1.5}),
        "MediaSettings": (risu_ai.MediaSettings, {}),
        "MemoryModels": (risu_ai.MemoryModels, {"summarize": lambda messages: "", "embed": lambda texts: []}),
        "ModelRequest": (ModelRequest, {"model": "a", "messages": [], "options": {}, "stream": False, "plan": plan}),
        "Preset": (Preset, {"formating_order": ["main"], "temperature": 80}),
        "Preset.from_database": (Preset.from_database, {"database": {}}),
        "Preset.from_json": (Preset.from_json, {"data": {}}),
        "Preset.load": (Preset.load, {"source": b"{}"}),
        "Preset.replace": (preset.replace, {"temperature": 70}),
        "Preset.save": (preset.save, {"path": InFolder(lambda folder: str(folder / "preset.json"))}),
        "PromptSettings": (PromptSettings, {}),
        "PromptSettings.from_json": (PromptSettings.from_json, {"data": {}}),
        "RegexScript": (RegexScript, {}),
        "RegexScript.from_json": (RegexScript.from_json, {"data": {"in": "a"}}),
        "RegexScriptRunner": (RegexScriptRunner, {}),
        "RegexScriptRunner.run": (
            runner.run,
            {"text": "a", "mode": "editoutput", "scripts": [script], "context": context},
        ),
        "Reply": (risu_ai.Reply, {"text": "a"}),
        "RisuCharacter": (RisuCharacter, {}),
        "RisuCharacter.from_json": (RisuCharacter.from_json, {"data": {}}),
        "RisuCharacter.greeting": (bel.greeting, {"index": -1}),
        "RisuCharacter.opened": (bel.opened, {"chat": chat}),
        "RisuChat": (RisuChat, {"messages": [RisuMessage(role="user", data="a")], "greeting_index": 0}),
        "RisuChat.from_json": (RisuChat.from_json, {"data": {}}),
        "RisuContext": (RisuContext, {"characters": [bel], "toggles": {"a": True}}),
        "RisuContext.chat_variable": (context.chat_variable, {"name": "a"}),
        "RisuContext.get_var": (context.get_var, {"name": "a"}),
        "RisuContext.global_variable": (context.global_variable, {"name": "a"}),
        "RisuContext.has_var": (context.has_var, {"name": "a"}),
        "RisuContext.replace": (context.replace, {"char": "Eve"}),
        "RisuContext.set_var": (context.set_var, {"name": "a", "value": 1}),
        "RisuDevice": (risu_ai.RisuDevice, {}),
        "RisuMessage": (RisuMessage, {"role": "user", "data": "a", "time": 1}),
        "RisuMessage.from_json": (RisuMessage.from_json, {"data": {}}),
        "RisuModule": (RisuModule, {"id": "m", "lore": [{}]}),
        "RisuModule.from_json": (RisuModule.from_json, {"data": {}}),
        "RisuPersona": (RisuPersona, {"id": "p"}),
        "RisuPersona.from_json": (RisuPersona.from_json, {"data": {}}),
        "RisuPlan.cut_reply": (plan.cut_reply, {"reply": "a"}),
        "RisuPlan.to_request": (plan.to_request, {}),
        "RisuPlan.to_text": (plan.to_text, {}),
        "RisuState": (RisuState, {"context": made}),
        "RisuState.edit_input": (state.edit_input, {"text": "a"}),
        "RisuState.edit_output": (state.edit_output, {"text": "a", "index": 0}),
        "RisuState.edit_process": (state.edit_process, {"text": "a", "index": 0, "role": "user"}),
        "RisuState.refuse": (builder.make_state(made.replace(on_overflow="return")).refuse, {"required_tokens": 1}),
        "RisuState.see_chat": (state.see_chat, {"chat": chat}),
        "ScanInput": (ScanInput, {"entries": [entry], "messages": (LoreMessage("user", "a"),)}),
        "Send": (Send, {"builder": builder, "context": made}),
        "Settings": (Settings, {"personas": [RisuPersona(id="p")]}),
        "Settings.flags_of": (settings.flags_of, {"model": "a"}),
        "Settings.for_texts": (settings.for_texts, {"preset": preset}),
        "Settings.from_json": (Settings.from_json, {"data": {}}),
        "Settings.replace": (settings.replace, {"personas": []}),
        "ShownInlay": (ShownInlay, {"kind": "image", "url": "a"}),
        "TriggerEngine": (TriggerEngine, {}),
        "TriggerEngine.click": (triggers.click, {"context": context, "data": "a"}),
        "TriggerEngine.command": (triggers.command, {"context": context, "line": "/echo a"}),
        "TriggerEngine.edit": (triggers.edit, {"context": context, "kind": "editInput", "data": "a"}),
        "TriggerEngine.edit_request": (triggers.edit_request, {"context": context, "messages": [{"role": "user"}]}),
        "TriggerEngine.edit_text": (triggers.edit_text, {"context": context, "kind": "editDisplay", "text": "a"}),
        "TriggerEngine.run": (triggers.run, {"context": context, "mode": "start"}),
        "TriggerLimits": (risu_ai.TriggerLimits, {"seconds": 1}),
        "build": (risu_ai.build, {}),
        "character_from_card": (risu_ai.character_from_card, {"card": CARD}),
        "chat_variables": (risu_ai.chat_variables, {"chat": chat}),
        "export_lorebook": (risu_ai.export_lorebook, {"entries": [{}]}),
        "hide_styles": (risu_ai.hide_styles, {"text": "a"}),
        "import_lorebook": (risu_ai.import_lorebook, {"value": {"entries": []}}),
        "read_module": (risu_ai.read_module, {"source": b'{"type": "risuModule", "id": "m"}'}),
        "read_scripts": (risu_ai.read_scripts, {"value": [], "where": "a"}),
        "read_st_files": (risu_ai.read_st_files, {"values": []}),
        "replace_assets": (risu_ai.replace_assets, {"text": "a", "context": context, "resolve": str}),
        "replace_inlays": (risu_ai.replace_inlays, {"text": "a", "inlays": {"b": ShownInlay("image", "c")}}),
        "restore_styles": (risu_ai.restore_styles, {"text": "a", "styles": ["b"]}),
        "run_translation_scripts": (risu_ai.run_translation_scripts, {"text": "a", "scripts": [script]}),
        "run_triggers": (risu_ai.run_triggers, {"context": context, "mode": "start"}),
        "scripts_of": (risu_ai.scripts_of, {"context": context, "preset": preset.regex}),
        "speakers": (risu_ai.speakers, {"group": GROUP, "characters": [bel], "chat": chat, "random": zero}),
        "to_chat_preset": (risu_ai.to_chat_preset, {"preset": preset}),
        "translation_scripts_of": (risu_ai.translation_scripts_of, {"context": context}),
        "write_module": (risu_ai.write_module, {"module": module}),
        "write_scripts": (risu_ai.write_scripts, {"scripts": Fresh(lambda: iter([script]))}),
    }


KEYWORDS: Mapping[str, list[str]] = {
    **dict.fromkeys(("Builder", "Builder.build", "Builder.decide", "Builder.send", "Builder.send_async"), INPUTS),
    "build": INPUTS,
    "RisuContext.replace": CHANGES,
    **{f"TriggerEngine.{name}": OPTIONS for name in ("click", "command", "edit", "edit_request", "edit_text", "run")},
    "run_triggers": OPTIONS,
}
"""What calls take by ``**``."""

RESULT = "a result: the library makes it"
CALLED = "called while a text runs, by the engine itself"
ANSWERS = "a host is called by triggers, not by programs"
HOST_METHODS = (
    *("alert", "ask", "asset_inlay", "confirm", "fetch", "image", "inlay", "llm", "log", "select"),
    *("similarity", "sleep", "speak"),
)
UNCALLED = {
    **dict.fromkeys(
        [
            "Save",
            "Save.builder",
            "Save.character",
            "Save.chat",
            "Save.chats",
            "Save.from_json",
            "Save.inputs",
            "Save.load",
            "Save.save",
            "Save.with_chat",
            "SaveAsset",
            "ModuleServer",
            "module_servers",
            "Settings.switch_preset",
            "read_persona",
            "write_persona",
            "RequestRules",
            "RequestRules.of",
            "RequestRules.setting",
            "RisuPlan.posted_messages",
            "RisuPlan.reference_request",
            "RisuRequest",
            "reference_request",
            "ModelRequest.reference_request",
        ],
        "checked by hand where it matters",
    ),
    **dict.fromkeys(
        ("ActiveLore", "ButtonResult", "CommandResult", "EditResult", "LorebookResult", "RisuPlan"), RESULT
    ),
    **dict.fromkeys(("ScriptResult", "SendResult", "TriggerEvent", "TriggerResult"), RESULT),
    **dict.fromkeys(("CBSEngine.compile_insert", "CBSEngine.execute", "RegexScriptRunner.run_unchecked"), CALLED),
    **{f"RefusingHost.{name}": ANSWERS for name in HOST_METHODS},
}

ANYTHING = {
    "LorebookEntry.order": "is kept as files have it, which may be any JSON",
    "RisuContext.set_var.value": "any value may be stored",
    "TriggerEngine.edit.data": "any JSON may be edited",
    "import_lorebook.value": "is a file's JSON: what is no lorebook has an error of its own",
}
"""Parameters that take anything, and why."""


SWEEP = Sweep("tavernkit.risu_ai", calls(), UNCALLED, ANYTHING, keywords=KEYWORDS)


def test_every_public_name_is_called() -> None:
    SWEEP.assert_complete()


@pytest.mark.parametrize("name", SWEEP.calls)
def test_right_arguments_are_taken(name: str) -> None:
    SWEEP.call(name)


@pytest.mark.parametrize(("name", "parameter"), SWEEP.pairs())
def test_wrong_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    SWEEP.assert_refused(name, parameter)


def test_a_lorebook_that_is_none_has_an_error_of_its_own() -> None:
    with pytest.raises(LoreParseError, match="this is no lorebook"):
        risu_ai.import_lorebook(Odd())
