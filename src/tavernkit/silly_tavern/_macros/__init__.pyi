from tavernkit.silly_tavern._macros.builtin import default_registry as default_registry
from tavernkit.silly_tavern._macros.builtin import silly_tavern_registry as silly_tavern_registry
from tavernkit.silly_tavern._macros.call import Diagnostic as Diagnostic
from tavernkit.silly_tavern._macros.call import MacroCall as MacroCall
from tavernkit.silly_tavern._macros.call import MacroFailure as MacroFailure
from tavernkit.silly_tavern._macros.engine import MacroEngine as MacroEngine
from tavernkit.silly_tavern._macros.engine import MacroResult as MacroResult
from tavernkit.silly_tavern._macros.environment import AuthorsNotes as AuthorsNotes
from tavernkit.silly_tavern._macros.environment import ExpressionSettings as ExpressionSettings
from tavernkit.silly_tavern._macros.environment import ExtensionValues as ExtensionValues
from tavernkit.silly_tavern._macros.environment import MacroEnvironment as MacroEnvironment
from tavernkit.silly_tavern._macros.environment import MacroMemory as MacroMemory
from tavernkit.silly_tavern._macros.legacy_engine import LegacyMacroEngine as LegacyMacroEngine
from tavernkit.silly_tavern._macros.registry import MacroArgument as MacroArgument
from tavernkit.silly_tavern._macros.registry import MacroDefinition as MacroDefinition
from tavernkit.silly_tavern._macros.registry import MacroListArgument as MacroListArgument
from tavernkit.silly_tavern._macros.registry import MacroRegistry as MacroRegistry
from tavernkit.silly_tavern._macros.run import Overrides as Overrides
from tavernkit.silly_tavern._macros.source import Processor as Processor
from tavernkit.silly_tavern._macros.variables import ChatVariables as ChatVariables

__all__: list[str]
