from tavernkit.batching.engine import BatchProgress as BatchProgress
from tavernkit.batching.engine import BatchResult as BatchResult
from tavernkit.batching.engine import GridInput as GridInput
from tavernkit.batching.engine import batch as batch
from tavernkit.batching.engine import iter_batch as iter_batch
from tavernkit.batching.generation import GenerateOptions as GenerateOptions
from tavernkit.batching.grid import Grid as Grid
from tavernkit.batching.record import BatchFormat as BatchFormat
from tavernkit.batching.record import BatchRecord as BatchRecord

__all__: list[str]
