from tavernkit.cards._kinds import FileKind as FileKind
from tavernkit.lint._books import lint_world_book as lint_world_book
from tavernkit.lint._files import fix_file as fix_file
from tavernkit.lint._files import is_known as is_known
from tavernkit.lint._files import lint_bundle as lint_bundle
from tavernkit.lint._files import lint_file as lint_file
from tavernkit.lint._finding import Finding as Finding
from tavernkit.lint._finding import grouped as grouped
from tavernkit.lint._finding import without_suppressed as without_suppressed
from tavernkit.lint._lorebooks import lint_lorebook as lint_lorebook
from tavernkit.lint._presets import lint_preset as lint_preset
from tavernkit.lint._scripts import WorstCase as WorstCase
from tavernkit.lint._scripts import lint_regex_script as lint_regex_script
from tavernkit.lint._scripts import measure_worst_case as measure_worst_case
from tavernkit.lint._texts import lint_text as lint_text

__all__: list[str]
