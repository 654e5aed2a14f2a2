"""The inputs of a prompt, as options."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from tavernkit._dataclass import dataclass
from tavernkit.cli.files import refuse_two_stdins
from tavernkit.cli.options import Platform, choice_option

FILES, TURN, LIMITS, FOLDERS = "What goes in", "This turn", "Model and budget", "Straight from an installation"

TEXT = "text"
"""The dialect of text-completion models."""
TEMPLATES = ("context_template", "instruct", "system_prompt")
READ = ("card", "preset", "book", *TEMPLATES, "regex_script", "module", "chat", "from_risuai")
"""Options that name files to read."""
OF_ONE_PLATFORM = {
    **dict.fromkeys(("allow_scripts", "from_sillytavern", "group", *TEMPLATES), Platform.SILLY_TAVERN),
    **dict.fromkeys(("module", "from_risuai"), Platform.RISU_AI),
}
"""Options that do not apply to the other platform."""
OF_INSTALLATIONS = ("character", "group", "speaker")
"""Options that choose from what an installation has."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """The options of every command that builds a prompt."""

    card: Annotated[
        Path | None,
        typer.Argument(
            help="Character card: PNG, JSON, YAML, CHARX, BYAF, WEBP or JPEG; - is stdin.", show_default=False
        ),
    ] = None
    platform: Annotated[
        Platform | None,
        choice_option(
            tuple(Platform),
            "--platform",
            "-p",
            help="The program whose rules to follow (default: silly_tavern).",
            panel=FILES,
        ),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="FILE",
            help="Preset file of the platform (or its name, with --from-…); - is stdin.",
            rich_help_panel=FILES,
        ),
    ] = None
    book: Annotated[
        list[Path] | None,
        typer.Option(
            "--book", "-b", help="World book or lorebook; - is stdin; may be repeated.", rich_help_panel=FILES
        ),
    ] = None
    context_template: Annotated[
        Path | None,
        typer.Option(
            "--context-template", help="For --dialect text: context template; - is stdin.", rich_help_panel=FILES
        ),
    ] = None
    instruct: Annotated[
        Path | None,
        typer.Option("--instruct", help="For --dialect text: instruct template; - is stdin.", rich_help_panel=FILES),
    ] = None
    system_prompt: Annotated[
        Path | None,
        typer.Option("--system-prompt", help="For --dialect text: system prompt; - is stdin.", rich_help_panel=FILES),
    ] = None
    regex_script: Annotated[
        list[Path] | None,
        typer.Option(
            "--regex-script",
            help="Regex scripts of the platform to run; - is stdin; may be repeated.",
            rich_help_panel=FILES,
        ),
    ] = None
    allow_scripts: Annotated[
        bool,
        typer.Option(
            "--allow-scripts",
            help="Also run the regex scripts inside the card and the preset. SillyTavern asks before it runs these.",
            rich_help_panel=FILES,
        ),
    ] = False
    module: Annotated[
        list[Path] | None,
        typer.Option(
            "--module", help="RisuAI module to switch on; - is stdin; may be repeated.", rich_help_panel=FILES
        ),
    ] = None
    chat: Annotated[
        str | None,
        typer.Option(
            "--chat",
            "-c",
            metavar="FILE",
            help="Chat file: SillyTavern's JSONL or RisuAI's JSON; - is stdin. With --from-…, the chat's name.",
            rich_help_panel=FILES,
        ),
    ] = None
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            "-u",
            metavar="NAME",
            help="The user's name, or that of a persona in a RisuAI save.",
            rich_help_panel=FILES,
        ),
    ] = None
    persona: Annotated[
        str | None, typer.Option("--persona", help="The user's persona description.", rich_help_panel=FILES)
    ] = None
    message: Annotated[
        str, typer.Option("--message", "-m", help="What the user says now.", rich_help_panel=TURN, show_default=False)
    ] = ""
    generation_type: Annotated[
        str,
        typer.Option(
            "--generation-type",
            "-g",
            metavar="KIND",
            help="normal, continue, swipe, regenerate, impersonate or quiet.",
            rich_help_panel=TURN,
        ),
    ] = "normal"
    greeting: Annotated[
        int,
        typer.Option(
            "--greeting",
            min=-1,
            help="Without --chat: which greeting starts the chat (-1 for none, in SillyTavern).",
            rich_help_panel=TURN,
        ),
    ] = 0
    seed: Annotated[
        int | None, typer.Option("--seed", help="Makes dice and random macros repeatable.", rich_help_panel=TURN)
    ] = None
    now: Annotated[
        datetime | None,
        typer.Option(
            "--now", help="The time that macros see (UTC); the current time by default.", rich_help_panel=TURN
        ),
    ] = None
    dialect: Annotated[
        str,
        typer.Option(
            "--dialect",
            "-d",
            metavar="NAME",
            help="openai, anthropic, google, cohere, mistral, ai21, xai, or text for models without chat.",
            rich_help_panel=LIMITS,
        ),
    ] = "openai"
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="NAME", help="Model name; decides how tokens are counted.", rich_help_panel=LIMITS
        ),
    ] = None
    context_length: Annotated[
        int | None,
        typer.Option(
            "--context-length", min=1, help="Context size in tokens instead of the preset's.", rich_help_panel=LIMITS
        ),
    ] = None
    response_length: Annotated[
        int | None,
        typer.Option(
            "--response-length",
            min=0,
            help="Tokens kept for the reply instead of the preset's.",
            rich_help_panel=LIMITS,
        ),
    ] = None
    on_overflow: Annotated[
        str,
        choice_option(
            ("error", "return"),
            "--on-overflow",
            help="If the prompt does not fit: fail (default), or return what fits.",
            panel=LIMITS,
        ),
    ] = "error"
    strict: Annotated[
        bool, typer.Option("--strict", help="Treat every warning as an error.", rich_help_panel=LIMITS)
    ] = False
    from_sillytavern: Annotated[
        Path | None,
        typer.Option(
            "--from-sillytavern",
            metavar="DIR",
            help="SillyTavern data folder, such as data/default-user.",
            rich_help_panel=FOLDERS,
        ),
    ] = None
    from_risuai: Annotated[
        Path | None,
        typer.Option(
            "--from-risuai",
            metavar="PATH",
            help="RisuAI local backup, database or data folder; - is stdin.",
            rich_help_panel=FOLDERS,
        ),
    ] = None
    character: Annotated[
        str | None,
        typer.Option("--character", metavar="NAME", help="Which character to use from there.", rich_help_panel=FOLDERS),
    ] = None
    group: Annotated[
        str | None,
        typer.Option(
            "--group", metavar="NAME", help="Which group to use from there (SillyTavern).", rich_help_panel=FOLDERS
        ),
    ] = None
    speaker: Annotated[
        str | None, typer.Option("--speaker", metavar="NAME", help="Who speaks, in a group.", rich_help_panel=FOLDERS)
    ] = None

    @property
    def chosen_platform(self) -> Platform:
        """Return the chosen platform, else the one that the inputs belong to."""
        if self.platform is not None:
            return self.platform
        return Platform.RISU_AI if self.from_risuai is not None else Platform.SILLY_TAVERN

    @property
    def files(self) -> Sequence[str | Path | Sequence[Path] | None]:
        """Return the files to read, option by option."""
        return [getattr(self, name) for name in READ]

    def refuse_misplaced(self) -> None:
        """Raise if an option would be ignored, or a file does not exist."""
        for name, platform in OF_ONE_PLATFORM.items():
            if getattr(self, name) and platform is not self.chosen_platform:
                raise typer.BadParameter(f"--{name.replace('_', '-')} is for --platform {platform.value}")
        for name in OF_INSTALLATIONS if self.from_sillytavern is None and self.from_risuai is None else ():
            if getattr(self, name):
                raise typer.BadParameter(f"--{name} is for --from-sillytavern or --from-risuai")
        refuse_two_stdins(*self.files)
        for name in TEMPLATES:
            if getattr(self, name) and self.dialect != TEXT:
                raise typer.BadParameter(f"--{name.replace('_', '-')} is for --dialect {TEXT}")
