"""RisuAI's regex scripts: reading them, and running them over inputs, replies, histories and translations."""

from tavernkit.risu_ai._regex_scripts.results import ScriptResult
from tavernkit.risu_ai._regex_scripts.runner import RegexScriptRunner
from tavernkit.risu_ai._regex_scripts.script import (
    RegexScript,
    ScriptMode,
    read_scripts,
    scripts_of,
    translation_scripts_of,
    write_scripts,
)
from tavernkit.risu_ai._regex_scripts.translation import hide_styles, restore_styles, run_translation_scripts

__all__ = [
    "RegexScript",
    "RegexScriptRunner",
    "ScriptMode",
    "ScriptResult",
    "hide_styles",
    "read_scripts",
    "restore_styles",
    "run_translation_scripts",
    "scripts_of",
    "translation_scripts_of",
    "write_scripts",
]
