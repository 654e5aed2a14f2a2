from tavernkit.authoring._case_file import CaseFileError as CaseFileError
from tavernkit.authoring._case_file import Expectations as Expectations
from tavernkit.authoring._case_file import PromptCase as PromptCase
from tavernkit.authoring._case_file import TextExpectation as TextExpectation
from tavernkit.authoring._case_file import case_schema as case_schema
from tavernkit.authoring._case_file import read_cases as read_cases
from tavernkit.authoring._case_file import record_case as record_case
from tavernkit.authoring._checks import CaseResult as CaseResult
from tavernkit.authoring._checks import Check as Check
from tavernkit.authoring._checks import check_plan as check_plan
from tavernkit.authoring._checks import results_as_json as results_as_json
from tavernkit.authoring._checks import results_as_junit as results_as_junit
from tavernkit.authoring._coverage import EntryCoverage as EntryCoverage
from tavernkit.authoring._coverage import lore_coverage as lore_coverage
from tavernkit.authoring._differences import Change as Change
from tavernkit.authoring._differences import diff_files as diff_files
from tavernkit.authoring._differences import diff_values as diff_values
from tavernkit.authoring._differences import file_text as file_text
from tavernkit.authoring._installations import Examination as Examination
from tavernkit.authoring._installations import examine as examine

__all__: list[str]
