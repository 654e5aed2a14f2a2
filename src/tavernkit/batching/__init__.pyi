from tavernkit.batching._engine import BatchProgress as BatchProgress
from tavernkit.batching._engine import BatchResult as BatchResult
from tavernkit.batching._engine import GridInput as GridInput
from tavernkit.batching._engine import batch as batch
from tavernkit.batching._engine import iter_batch as iter_batch
from tavernkit.batching._evaluation import evaluate as evaluate
from tavernkit.batching._generation import GenerateOptions as GenerateOptions
from tavernkit.batching._grid import Grid as Grid
from tavernkit.batching._tasks import BatchFormat as BatchFormat
from tavernkit.batching._tasks import BatchRecord as BatchRecord

__all__: list[str]
