"""The compatibility page, generated from the conformance results by ``make tables``."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import runner

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"

PLATFORMS = {
    "silly_tavern": "SillyTavern 1.19.0",
    "risu_ai": "RisuAI 2026.1.90",
    "cards": "Character cards",
    "core": "Core",
    "vibe_tavern": "Model protocol",
}

ABOUT = {
    "silly_tavern/build_chat": "whole chat-completion prompts: preset, card, lore, history, injections, budget",
    "silly_tavern/build_chat_models": "chat prompts near the budget, with the tokenizers of all sources",
    "silly_tavern/build_chat_squash": "system messages squashed",
    "silly_tavern/build_group_folder": "group chats from a data folder: scripts, books and tags of the speaker",
    "silly_tavern/chat_extras": "injects, personas, summaries, attachments, Vector Storage, notes of chats and folders",
    "silly_tavern/token_counts": "tokens of messages, texts, pictures, videos and sounds",
    "silly_tavern/build_text": "whole text-completion prompts: context template, instruct, stop strings",
    "silly_tavern/macros_v1": "the legacy macro engine",
    "silly_tavern/macros_v2": "Macros 2.0",
    "silly_tavern/world_info": "World Info scans",
    "silly_tavern/world_info_timed": "sticky, cooldown and delay over many turns",
    "silly_tavern/world_info_import": "world files of other programs",
    "silly_tavern/regex_scripts": "regex scripts",
    "silly_tavern/conversations": "whole conversations: every operation, request, message and variable",
    "silly_tavern/converters": "messages for Claude, Google, Mistral, Cohere and others",
    "silly_tavern/provider_requests": "whole requests to providers",
    "silly_tavern/provider_requests_all": "whole requests to all 26 chat-completion sources, from presets",
    "silly_tavern/text_backend_requests": "whole requests to text-completion backends, from sampler presets",
    "silly_tavern/instruct": "instruct templates",
    "silly_tavern/context_template": "story strings",
    "silly_tavern/groups_activation": "who speaks in a group",
    "silly_tavern/groups_cards": "cards of a group joined",
    "silly_tavern/examples_parsing": "example dialogue",
    "silly_tavern/in_chat_injection": "prompts at a depth of the chat",
    "silly_tavern/output_cleanup": "replies, cleaned up",
    "risu_ai/build": "whole prompts and requests",
    "risu_ai/conversations": "whole conversations: every operation, request, message and variable",
    "risu_ai/cbs": "CBS, the Curly Braced Syntax",
    "risu_ai/cbs_assets": "pictures and sounds in texts",
    "risu_ai/lorebook": "lorebook scans with all decorators",
    "risu_ai/lorebook_import": "lorebooks of other programs",
    "risu_ai/regex_scripts": "regex scripts with their flags",
    "risu_ai/triggers_v1": "triggers, first version",
    "risu_ai/triggers_v2": "triggers, block version",
    "risu_ai/triggers_lua": "Lua scripts",
    "risu_ai/memory": "memory",
    "risu_ai/preset_files": ".risup, .risupreset, .risum and JSON files",
    "risu_ai/save_files": "local backups and databases: read, started up, sent from",
    "risu_ai/request_bodies": "requests in the format of each provider",
    "risu_ai/prompt_convert": "context and instruct templates of SillyTavern",
    "risu_ai/jinja_templates": "chat templates",
    "risu_ai/stringlize": "prompts as one text",
    "risu_ai/reformat": "roles rewritten for models",
    "risu_ai/card_files": "cards, imported and exported",
    "risu_ai/example_messages": "example dialogue",
    "risu_ai/commands": "chat commands",
    "risu_ai/st_chat_convert": "chat presets of SillyTavern as prompt templates",
    "cards/cards": "cards of every format, read and written",
    "core/dialects_anthropic": "messages for Anthropic",
    "core/dialects_openai": "messages for OpenAI",
    "core/json_pointer": "JSON pointers",
    "core/language_tag": "BCP-47 language tags",
    "core/trimmer": "the generic trimmer",
    "core/verbatim_masker": "texts that must stay as they are",
    "vibe_tavern/directives_parser": "directives, read",
    "vibe_tavern/directives_runner": "directives, run",
    "vibe_tavern/directives_validator": "directives, checked",
    "vibe_tavern/liquid_macros": "Liquid macros",
    "vibe_tavern/output_tags": "tags in replies",
    "vibe_tavern/preflight": "checks before a request",
    "vibe_tavern/request_policy": "what a provider may be sent",
    "vibe_tavern/tool_loop": "conversations with tools",
}


NEED_FILES = ("silly_tavern/build_chat_models", "silly_tavern/token_counts")
"""Surfaces with cases that need tokenizer files which may not be shipped."""


@dataclass(frozen=True)
class Row:
    """One surface: recorded cases, and how many of them come out the same. Some ``lack`` a file."""

    surface: str
    total: int
    same: int
    failed: int
    lack: int = 0


def count() -> list[Row]:
    """What the test suite guarantees: every case but the known differences."""
    known = runner.known_differences()
    rows: list[Row] = []
    for surface in runner.surfaces():
        cases = list(runner.cases(surface))
        different = sum(case.id in known for case in cases)
        there = runner.adapter(surface) is not None
        lack = sum(runner.run(case).lacking is not None for case in cases) if surface in NEED_FILES else 0
        rows.append(Row(surface, len(cases), len(cases) - different - lack if there else 0, 0, lack))
    return rows


BEYOND = """
## Deliberately different

- **Nothing hangs.** Macros, regular expressions, templates, Lua and triggers have limits, where the programs would
  freeze or use all memory. Text beyond a limit stays as it is or is left out, with a warning; see
  [Security](security.md).
- **Nothing is dropped silently.** Where the programs ignore a broken field, entry or line, TavernKit ignores it too,
  but warns. `strict=True` makes it an error.
- **Random choices have a seed.** `{{random}}`, `{{roll}}`, probabilities and RisuAI's dice depend on `seed`: the same
  build gives the same prompt. The clock is an input too (`clock`).
- **A build changes nothing.** Variables, timed lore and chats change when the reply arrives, not while the prompt is
  built.
- **Cards cannot use the network.** A card cannot make TavernKit fetch anything. RisuAI's low-level Lua functions and
  the tool servers of modules are off until the application allows them.
- **Inexact token counts are marked.** If a model's vocabulary is missing, the plan names the tokenizer that was used
  instead. You can supply it: see [Token counting](guides/from-sillytavern.md#token-counting).

## Not supported

- Extensions and plugins that run their own code. `tavernkit doctor` and `folder.unsupported()` name those in a folder;
  [RisuAI plugins](guides/risuai-plugins.md) shows what to use instead.
- Quick Replies and scripts of SillyTavern's slash commands. They are read but not run.
- Speech, image generation and translation services of the programs. Their texts in prompts (pictures, captions,
  translations through your function or model) are supported.
- AI Horde, and the chat source that SillyTavern itself has switched off.
- The rules of older versions. Their files are read, but prompts are built by the rules of the versions above.
"""


def measure() -> list[Row]:
    """The same, measured."""
    rows: list[Row] = []
    for row in count():
        if not row.same:
            rows.append(row)
            continue
        outcomes = [runner.run(case) for case in runner.cases(row.surface)]
        same = sum(outcome.passed for outcome in outcomes)
        rows.append(Row(row.surface, row.total, same, row.total - same - row.lack, row.lack))
    return rows


def render(rows: list[Row]) -> str:
    """Write the page."""
    total, same = sum(row.total for row in rows), sum(row.same for row in rows)
    lines = [
        "# Compatibility",
        "",
        "The same files in, the same prompt out, byte for byte. Cases recorded from the real programs check this. This",
        "page shows the results (`make tables` writes it), and the test suite makes sure that it is true.",
        "",
        f"**{same:,} of {total:,} recorded cases give the same result.**",
    ]
    for platform, title in PLATFORMS.items():
        mine = [row for row in rows if row.surface.startswith(f"{platform}/")]
        if mine:
            lines += ["", f"## {title}", "", "| surface | what | cases | the same |", "|---|---|---:|---:|"]
            lines += [_line(row) for row in mine]
    known = runner.known_differences()
    if known:
        lines += ["", "## Known differences", "", "| case | why |", "|---|---|"]
        lines += [f"| `{case}` | {reason} |" for case, reason in sorted(known.items())]
    return "\n".join(lines) + "\n" + BEYOND


def _line(row: Row) -> str:
    name = row.surface.partition("/")[2]
    same = "not yet" if not row.same else "all" if row.same == row.total else f"{row.same:,}"
    if row.lack and row.same == row.total - row.lack:
        same = f"{row.same:,}; {row.lack} need a tokenizer's file"
    return f"| `{name}` | {ABOUT.get(row.surface, '')} | {row.total:,} | {same} |"


if __name__ == "__main__":
    logging.disable()  # what hostile cases make the library say is of no interest here
    measured = measure()
    PAGE.write_text(render(measured), encoding="utf-8")
    print(f"{PAGE.name}: {sum(row.same for row in measured)} of {sum(row.total for row in measured)}")
