from tavernkit.lint.books import lint_world_book as lint_world_book
from tavernkit.lint.bundles import lint_bundle as lint_bundle
from tavernkit.lint.files import FileKind as FileKind
from tavernkit.lint.files import is_known as is_known
from tavernkit.lint.files import lint_file as lint_file
from tavernkit.lint.finding import Finding as Finding
from tavernkit.lint.finding import grouped as grouped
from tavernkit.lint.fixes import fix_file as fix_file
from tavernkit.lint.lorebooks import lint_lorebook as lint_lorebook
from tavernkit.lint.presets import lint_preset as lint_preset
from tavernkit.lint.scripts import lint_regex_script as lint_regex_script
from tavernkit.lint.suppressions import without_suppressed as without_suppressed
from tavernkit.lint.texts import lint_text as lint_text
from tavernkit.lint.worst_case import WorstCase as WorstCase
from tavernkit.lint.worst_case import measure_worst_case as measure_worst_case

__all__: list[str]
