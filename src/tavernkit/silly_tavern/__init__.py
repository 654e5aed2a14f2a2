"""SillyTavern: its files in, its prompt out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.silly_tavern.authors_note import CharacterNote as CharacterNote
    from tavernkit.silly_tavern.authors_note import NoteSettings as NoteSettings
    from tavernkit.silly_tavern.builder import Builder as Builder
    from tavernkit.silly_tavern.builder import build as build
    from tavernkit.silly_tavern.chat_completion.plan import ChatPlan as ChatPlan
    from tavernkit.silly_tavern.chat_completion.tools import Tool as Tool
    from tavernkit.silly_tavern.chat_file import ChatFile as ChatFile
    from tavernkit.silly_tavern.chat_file import ChatMetadata as ChatMetadata
    from tavernkit.silly_tavern.chat_message import ChatMessage as ChatMessage
    from tavernkit.silly_tavern.context import SillyTavernContext as SillyTavernContext
    from tavernkit.silly_tavern.context_template.template import ContextTemplate as ContextTemplate
    from tavernkit.silly_tavern.data_folder import DataFolder as DataFolder
    from tavernkit.silly_tavern.errors import InvalidContextTemplateError as InvalidContextTemplateError
    from tavernkit.silly_tavern.errors import InvalidInstructError as InvalidInstructError
    from tavernkit.silly_tavern.errors import LoreParseError as LoreParseError
    from tavernkit.silly_tavern.extension_prompts import ExtensionPrompt as ExtensionPrompt
    from tavernkit.silly_tavern.groups import Group as Group
    from tavernkit.silly_tavern.groups import GroupDecision as GroupDecision
    from tavernkit.silly_tavern.instruct.selection import select_for_model as select_for_model
    from tavernkit.silly_tavern.instruct.selection import template_for_chat_template as template_for_chat_template
    from tavernkit.silly_tavern.instruct.system_prompt import SystemPrompt as SystemPrompt
    from tavernkit.silly_tavern.instruct.template import InstructTemplate as InstructTemplate
    from tavernkit.silly_tavern.macros import Diagnostic as Diagnostic
    from tavernkit.silly_tavern.macros import MacroEngine as MacroEngine
    from tavernkit.silly_tavern.macros import MacroEnvironment as MacroEnvironment
    from tavernkit.silly_tavern.macros import MacroRegistry as MacroRegistry
    from tavernkit.silly_tavern.macros import Overrides as Overrides
    from tavernkit.silly_tavern.macros import default_registry as default_registry
    from tavernkit.silly_tavern.output_cleanup import CleanUp as CleanUp
    from tavernkit.silly_tavern.output_cleanup import clean_up as clean_up
    from tavernkit.silly_tavern.persona import Persona as Persona
    from tavernkit.silly_tavern.pipeline import PIPELINE as PIPELINE
    from tavernkit.silly_tavern.preset import Preset as Preset
    from tavernkit.silly_tavern.preset_prompts import OrderEntry as OrderEntry
    from tavernkit.silly_tavern.preset_prompts import PresetPrompt as PresetPrompt
    from tavernkit.silly_tavern.preset_prompts import PromptOrder as PromptOrder
    from tavernkit.silly_tavern.prompt_manager_file import export_prompts as export_prompts
    from tavernkit.silly_tavern.prompt_manager_file import import_prompts as import_prompts
    from tavernkit.silly_tavern.reasoning import ReasoningSettings as ReasoningSettings
    from tavernkit.silly_tavern.regex_scripts import RegexPlacement as RegexPlacement
    from tavernkit.silly_tavern.regex_scripts import RegexScript as RegexScript
    from tavernkit.silly_tavern.regex_scripts import RegexScripts as RegexScripts
    from tavernkit.silly_tavern.regex_scripts import migrate_script as migrate_script
    from tavernkit.silly_tavern.settings import PowerUser as PowerUser
    from tavernkit.silly_tavern.settings import Settings as Settings
    from tavernkit.silly_tavern.state import SillyTavernState as SillyTavernState
    from tavernkit.silly_tavern.template_bundle import TemplateBundle as TemplateBundle
    from tavernkit.silly_tavern.text_completion.plan import TextPlan as TextPlan
    from tavernkit.silly_tavern.text_completion.stop_strings import StopInput as StopInput
    from tavernkit.silly_tavern.text_completion.stop_strings import custom_stop_strings as custom_stop_strings
    from tavernkit.silly_tavern.text_completion.stop_strings import stop_strings as stop_strings
    from tavernkit.silly_tavern.world_info.book import WorldBook as WorldBook
    from tavernkit.silly_tavern.world_info.engine import WorldInfoEngine as WorldInfoEngine
    from tavernkit.silly_tavern.world_info.entry import Entry as Entry
    from tavernkit.silly_tavern.world_info.importers import import_world as import_world
    from tavernkit.silly_tavern.world_info.result import WorldInfoResult as WorldInfoResult
    from tavernkit.silly_tavern.world_info.scan_input import ScanInput as ScanInput
    from tavernkit.silly_tavern.world_info.selection import SelectedBooks as SelectedBooks
    from tavernkit.silly_tavern.world_info.settings import WorldInfoSettings as WorldInfoSettings

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".authors_note": ("CharacterNote", "NoteSettings"),
        ".builder": ("Builder", "build"),
        ".chat_completion.plan": ("ChatPlan",),
        ".chat_completion.tools": ("Tool",),
        ".chat_file": ("ChatFile", "ChatMetadata"),
        ".chat_message": ("ChatMessage",),
        ".context": ("SillyTavernContext",),
        ".context_template.template": ("ContextTemplate",),
        ".data_folder": ("DataFolder",),
        ".errors": ("InvalidContextTemplateError", "InvalidInstructError", "LoreParseError"),
        ".extension_prompts": ("ExtensionPrompt",),
        ".groups": ("Group", "GroupDecision"),
        ".instruct.selection": ("select_for_model", "template_for_chat_template"),
        ".instruct.system_prompt": ("SystemPrompt",),
        ".instruct.template": ("InstructTemplate",),
        ".macros": ("Diagnostic", "MacroEngine", "MacroEnvironment", "MacroRegistry", "Overrides", "default_registry"),
        ".output_cleanup": ("CleanUp", "clean_up"),
        ".persona": ("Persona",),
        ".pipeline": ("PIPELINE",),
        ".preset": ("Preset",),
        ".preset_prompts": ("OrderEntry", "PresetPrompt", "PromptOrder"),
        ".prompt_manager_file": ("export_prompts", "import_prompts"),
        ".reasoning": ("ReasoningSettings",),
        ".regex_scripts": ("RegexPlacement", "RegexScript", "RegexScripts", "migrate_script"),
        ".settings": ("PowerUser", "Settings"),
        ".state": ("SillyTavernState",),
        ".template_bundle": ("TemplateBundle",),
        ".text_completion.plan": ("TextPlan",),
        ".text_completion.stop_strings": ("StopInput", "custom_stop_strings", "stop_strings"),
        ".world_info.book": ("WorldBook",),
        ".world_info.engine": ("WorldInfoEngine",),
        ".world_info.entry": ("Entry",),
        ".world_info.importers": ("import_world",),
        ".world_info.result": ("WorldInfoResult",),
        ".world_info.scan_input": ("ScanInput",),
        ".world_info.selection": ("SelectedBooks",),
        ".world_info.settings": ("WorldInfoSettings",),
    },
)
