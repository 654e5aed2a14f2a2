from tavernkit.authoring.case_file import CaseFileError as CaseFileError
from tavernkit.authoring.case_file import Expectations as Expectations
from tavernkit.authoring.case_file import PromptCase as PromptCase
from tavernkit.authoring.case_file import TextExpectation as TextExpectation
from tavernkit.authoring.case_file import read_cases as read_cases
from tavernkit.authoring.case_schema import case_schema as case_schema
from tavernkit.authoring.checks import Check as Check
from tavernkit.authoring.checks import check_plan as check_plan
from tavernkit.authoring.coverage import EntryCoverage as EntryCoverage
from tavernkit.authoring.coverage import lore_coverage as lore_coverage
from tavernkit.authoring.differences import Change as Change
from tavernkit.authoring.differences import diff_files as diff_files
from tavernkit.authoring.differences import diff_values as diff_values
from tavernkit.authoring.differences import file_text as file_text
from tavernkit.authoring.installations import Examination as Examination
from tavernkit.authoring.installations import examine as examine
from tavernkit.authoring.recording import record_case as record_case
from tavernkit.authoring.results import CaseResult as CaseResult
from tavernkit.authoring.results import results_as_json as results_as_json
from tavernkit.authoring.results import results_as_junit as results_as_junit

__all__: list[str]
