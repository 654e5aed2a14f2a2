from tavernkit.models._script import Answer as Answer
from tavernkit.models._script import Body as Body
from tavernkit.models._script import Disconnect as Disconnect
from tavernkit.models._script import Failure as Failure
from tavernkit.models._script import Hang as Hang
from tavernkit.models._script import RawBytes as RawBytes
from tavernkit.models._script import answer as answer
from tavernkit.models._script import calls as calls
from tavernkit.models._script import failure as failure
from tavernkit.models._script import streamed as streamed
from tavernkit.models._script import tool_call as tool_call
from tavernkit.models._script import usage as usage
from tavernkit.models._scripted import ScriptedModel as ScriptedModel
from tavernkit.models._scripted import ScriptExhaustedError as ScriptExhaustedError
from tavernkit.testing._loopback import HttpReply as HttpReply
from tavernkit.testing._loopback import HttpRequest as HttpRequest
from tavernkit.testing._loopback import LoopbackServer as LoopbackServer
from tavernkit.testing._risu_ai import ScriptedTriggerHost as ScriptedTriggerHost
from tavernkit.testing._risu_ai import memory_models as memory_models
from tavernkit.testing._scripted_server import serve as serve
from tavernkit.testing._scripted_server import serve_in_thread as serve_in_thread

__all__: list[str]
