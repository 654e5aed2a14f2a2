from tavernkit.testing.loopback import HttpReply as HttpReply
from tavernkit.testing.loopback import HttpRequest as HttpRequest
from tavernkit.testing.loopback import LoopbackServer as LoopbackServer
from tavernkit.testing.replies import Answer as Answer
from tavernkit.testing.replies import Body as Body
from tavernkit.testing.replies import Disconnect as Disconnect
from tavernkit.testing.replies import Failure as Failure
from tavernkit.testing.replies import Hang as Hang
from tavernkit.testing.replies import RawBytes as RawBytes
from tavernkit.testing.replies import answer as answer
from tavernkit.testing.replies import calls as calls
from tavernkit.testing.replies import failure as failure
from tavernkit.testing.replies import streamed as streamed
from tavernkit.testing.replies import tool_call as tool_call
from tavernkit.testing.replies import usage as usage
from tavernkit.testing.scripted_memory import memory_models as memory_models
from tavernkit.testing.scripted_model import ScriptedModel as ScriptedModel
from tavernkit.testing.scripted_model import ScriptExhaustedError as ScriptExhaustedError
from tavernkit.testing.scripted_server import serve as serve
from tavernkit.testing.scripted_server import serve_in_thread as serve_in_thread
from tavernkit.testing.trigger_host import ScriptedTriggerHost as ScriptedTriggerHost

__all__: list[str]
