from tavernkit.prompt.block import Block as Block
from tavernkit.prompt.builder import BaseBuilder as BaseBuilder
from tavernkit.prompt.builder import Builder as Builder
from tavernkit.prompt.context import Context as Context
from tavernkit.prompt.entry import EntryConditions as EntryConditions
from tavernkit.prompt.entry import PromptEntry as PromptEntry
from tavernkit.prompt.explain import Explanation as Explanation
from tavernkit.prompt.hooks import HookRegistry as HookRegistry
from tavernkit.prompt.injections import Injection as Injection
from tavernkit.prompt.injections import InjectionRegistry as InjectionRegistry
from tavernkit.prompt.inputs import CommonInputs as CommonInputs
from tavernkit.prompt.inputs import Estimator as Estimator
from tavernkit.prompt.message import Message as Message
from tavernkit.prompt.omission import Omission as Omission
from tavernkit.prompt.pipeline import Pipeline as Pipeline
from tavernkit.prompt.plan import Plan as Plan
from tavernkit.prompt.plan import RenderedText as RenderedText
from tavernkit.prompt.plan import TextSpan as TextSpan
from tavernkit.prompt.state import BuildState as BuildState
from tavernkit.prompt.step import NoConfig as NoConfig
from tavernkit.prompt.step import Step as Step
from tavernkit.prompt.trace import Trace as Trace
from tavernkit.prompt.trace import TraceCollector as TraceCollector
from tavernkit.prompt.trace import TraceStep as TraceStep

__all__: list[str]
