"""RisuAI: CBS, lorebooks, regex scripts, prompt templates, triggers, memory, and prompts built of them.

>>> from tavernkit import risu_ai                                                     # doctest: +SKIP
>>> plan = risu_ai.build(character=card, user=user, preset=preset, history=chat)      # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from tavernkit._lazy import lazy_exports

if TYPE_CHECKING:
    from tavernkit.risu_ai.build_context import BuildContext as BuildContext
    from tavernkit.risu_ai.builder import Builder as Builder
    from tavernkit.risu_ai.builder import build as build
    from tavernkit.risu_ai.card_import import character_from_card as character_from_card
    from tavernkit.risu_ai.cbs import CBSEngine as CBSEngine
    from tavernkit.risu_ai.cbs import CBSRegistry as CBSRegistry
    from tavernkit.risu_ai.cbs import MediaSettings as MediaSettings
    from tavernkit.risu_ai.cbs import ShownInlay as ShownInlay
    from tavernkit.risu_ai.cbs import replace_assets as replace_assets
    from tavernkit.risu_ai.cbs import replace_inlays as replace_inlays
    from tavernkit.risu_ai.cbs import standard_registry as standard_registry
    from tavernkit.risu_ai.chat_templates import ChatTemplate as ChatTemplate
    from tavernkit.risu_ai.context import RisuContext as RisuContext
    from tavernkit.risu_ai.context import RisuDevice as RisuDevice
    from tavernkit.risu_ai.errors import CBSError as CBSError
    from tavernkit.risu_ai.errors import ChatTemplateError as ChatTemplateError
    from tavernkit.risu_ai.errors import DecoratorParseError as DecoratorParseError
    from tavernkit.risu_ai.errors import MemoryFailedError as MemoryFailedError
    from tavernkit.risu_ai.errors import PromptTemplateError as PromptTemplateError
    from tavernkit.risu_ai.errors import RequestFormatError as RequestFormatError
    from tavernkit.risu_ai.errors import TriggerError as TriggerError
    from tavernkit.risu_ai.files.chat_file import ChatFile as ChatFile
    from tavernkit.risu_ai.files.chat_file import ChatFileError as ChatFileError
    from tavernkit.risu_ai.files.chat_file import chat_variables as chat_variables
    from tavernkit.risu_ai.files.database_file import Database as Database
    from tavernkit.risu_ai.files.module_file import read_module as read_module
    from tavernkit.risu_ai.files.module_file import write_module as write_module
    from tavernkit.risu_ai.files.silly_tavern_files import read_st_files as read_st_files
    from tavernkit.risu_ai.files.silly_tavern_preset import to_chat_preset as to_chat_preset
    from tavernkit.risu_ai.groups import speakers as speakers
    from tavernkit.risu_ai.inlays import Inlay as Inlay
    from tavernkit.risu_ai.lorebook import ActiveLore as ActiveLore
    from tavernkit.risu_ai.lorebook import LorebookEngine as LorebookEngine
    from tavernkit.risu_ai.lorebook import LorebookEntry as LorebookEntry
    from tavernkit.risu_ai.lorebook import LorebookResult as LorebookResult
    from tavernkit.risu_ai.lorebook import LorebookSettings as LorebookSettings
    from tavernkit.risu_ai.lorebook import LoreMessage as LoreMessage
    from tavernkit.risu_ai.lorebook import ScanInput as ScanInput
    from tavernkit.risu_ai.lorebook.imports import export_lorebook as export_lorebook
    from tavernkit.risu_ai.lorebook.imports import import_lorebook as import_lorebook
    from tavernkit.risu_ai.memory import MemoryModels as MemoryModels
    from tavernkit.risu_ai.pipeline import PIPELINE as PIPELINE
    from tavernkit.risu_ai.plan import RisuPlan as RisuPlan
    from tavernkit.risu_ai.preset import Preset as Preset
    from tavernkit.risu_ai.prompt_template.settings import PromptSettings as PromptSettings
    from tavernkit.risu_ai.regex_scripts import RegexScript as RegexScript
    from tavernkit.risu_ai.regex_scripts import RegexScriptRunner as RegexScriptRunner
    from tavernkit.risu_ai.regex_scripts import ScriptResult as ScriptResult
    from tavernkit.risu_ai.regex_scripts import hide_styles as hide_styles
    from tavernkit.risu_ai.regex_scripts import read_scripts as read_scripts
    from tavernkit.risu_ai.regex_scripts import restore_styles as restore_styles
    from tavernkit.risu_ai.regex_scripts import run_translation_scripts as run_translation_scripts
    from tavernkit.risu_ai.regex_scripts import scripts_of as scripts_of
    from tavernkit.risu_ai.regex_scripts import translation_scripts_of as translation_scripts_of
    from tavernkit.risu_ai.regex_scripts import write_scripts as write_scripts
    from tavernkit.risu_ai.sending import ModelRequest as ModelRequest
    from tavernkit.risu_ai.sending import RequestFailedError as RequestFailedError
    from tavernkit.risu_ai.sending import SendResult as SendResult
    from tavernkit.risu_ai.sending.exchange import Answer as Answer
    from tavernkit.risu_ai.sending.exchange import Ask as Ask
    from tavernkit.risu_ai.sending.exchange import Chunk as Chunk
    from tavernkit.risu_ai.sending.exchange import Failure as Failure
    from tavernkit.risu_ai.sending.exchange import NextChunk as NextChunk
    from tavernkit.risu_ai.sending.exchange import Reply as Reply
    from tavernkit.risu_ai.sending.exchange import StreamOpened as StreamOpened
    from tavernkit.risu_ai.sending.send import Send as Send
    from tavernkit.risu_ai.settings import BuiltInTexts as BuiltInTexts
    from tavernkit.risu_ai.settings import Settings as Settings
    from tavernkit.risu_ai.state import RisuState as RisuState
    from tavernkit.risu_ai.triggers import ButtonResult as ButtonResult
    from tavernkit.risu_ai.triggers import CommandResult as CommandResult
    from tavernkit.risu_ai.triggers import EditResult as EditResult
    from tavernkit.risu_ai.triggers import FetchReply as FetchReply
    from tavernkit.risu_ai.triggers import HostRefusedError as HostRefusedError
    from tavernkit.risu_ai.triggers import InlayData as InlayData
    from tavernkit.risu_ai.triggers import LLMReply as LLMReply
    from tavernkit.risu_ai.triggers import RefusingHost as RefusingHost
    from tavernkit.risu_ai.triggers import TriggerEngine as TriggerEngine
    from tavernkit.risu_ai.triggers import TriggerEvent as TriggerEvent
    from tavernkit.risu_ai.triggers import TriggerHost as TriggerHost
    from tavernkit.risu_ai.triggers import TriggerLimits as TriggerLimits
    from tavernkit.risu_ai.triggers import TriggerResult as TriggerResult
    from tavernkit.risu_ai.triggers import run_triggers as run_triggers
    from tavernkit.risu_ai.triggers.host import AlertKind as AlertKind
    from tavernkit.risu_ai.world import RisuCharacter as RisuCharacter
    from tavernkit.risu_ai.world import RisuChat as RisuChat
    from tavernkit.risu_ai.world import RisuMessage as RisuMessage
    from tavernkit.risu_ai.world import RisuModule as RisuModule
    from tavernkit.risu_ai.world import RisuPersona as RisuPersona

__getattr__, __all__ = lazy_exports(
    __name__,
    {
        ".build_context": ("BuildContext",),
        ".builder": ("Builder", "build"),
        ".card_import": ("character_from_card",),
        ".cbs": (
            "CBSEngine",
            "CBSRegistry",
            "MediaSettings",
            "ShownInlay",
            "replace_assets",
            "replace_inlays",
            "standard_registry",
        ),
        ".chat_templates": ("ChatTemplate",),
        ".context": ("RisuContext", "RisuDevice"),
        ".errors": (
            "CBSError",
            "ChatTemplateError",
            "DecoratorParseError",
            "MemoryFailedError",
            "PromptTemplateError",
            "RequestFormatError",
            "TriggerError",
        ),
        ".files.chat_file": ("ChatFile", "ChatFileError", "chat_variables"),
        ".files.database_file": ("Database",),
        ".files.module_file": ("read_module", "write_module"),
        ".files.silly_tavern_files": ("read_st_files",),
        ".files.silly_tavern_preset": ("to_chat_preset",),
        ".groups": ("speakers",),
        ".inlays": ("Inlay",),
        ".lorebook": (
            "ActiveLore",
            "LoreMessage",
            "LorebookEngine",
            "LorebookEntry",
            "LorebookResult",
            "LorebookSettings",
            "ScanInput",
        ),
        ".lorebook.imports": ("export_lorebook", "import_lorebook"),
        ".memory": ("MemoryModels",),
        ".pipeline": ("PIPELINE",),
        ".plan": ("RisuPlan",),
        ".preset": ("Preset",),
        ".prompt_template.settings": ("PromptSettings",),
        ".regex_scripts": (
            "RegexScript",
            "RegexScriptRunner",
            "ScriptResult",
            "hide_styles",
            "read_scripts",
            "restore_styles",
            "run_translation_scripts",
            "scripts_of",
            "translation_scripts_of",
            "write_scripts",
        ),
        ".sending": ("ModelRequest", "RequestFailedError", "SendResult"),
        ".sending.exchange": ("Answer", "Ask", "Chunk", "Failure", "NextChunk", "Reply", "StreamOpened"),
        ".sending.send": ("Send",),
        ".settings": ("BuiltInTexts", "Settings"),
        ".state": ("RisuState",),
        ".triggers": (
            "ButtonResult",
            "CommandResult",
            "EditResult",
            "FetchReply",
            "HostRefusedError",
            "InlayData",
            "LLMReply",
            "RefusingHost",
            "TriggerEngine",
            "TriggerEvent",
            "TriggerHost",
            "TriggerLimits",
            "TriggerResult",
            "run_triggers",
        ),
        ".triggers.host": ("AlertKind",),
        ".world": ("RisuCharacter", "RisuChat", "RisuMessage", "RisuModule", "RisuPersona"),
    },
)
