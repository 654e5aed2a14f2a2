from tavernkit.models.script import Answer as Answer
from tavernkit.models.script import Body as Body
from tavernkit.models.script import Disconnect as Disconnect
from tavernkit.models.script import Failure as Failure
from tavernkit.models.script import Hang as Hang
from tavernkit.models.script import RawBytes as RawBytes
from tavernkit.models.script import answer as answer
from tavernkit.models.script import calls as calls
from tavernkit.models.script import failure as failure
from tavernkit.models.script import streamed as streamed
from tavernkit.models.script import tool_call as tool_call
from tavernkit.models.script import usage as usage
from tavernkit.models.scripted import ScriptedModel as ScriptedModel
from tavernkit.models.scripted import ScriptExhaustedError as ScriptExhaustedError
from tavernkit.testing.loopback import HttpReply as HttpReply
from tavernkit.testing.loopback import HttpRequest as HttpRequest
from tavernkit.testing.loopback import LoopbackServer as LoopbackServer
from tavernkit.testing.scripted_memory import memory_models as memory_models
from tavernkit.testing.scripted_server import serve as serve
from tavernkit.testing.scripted_server import serve_in_thread as serve_in_thread
from tavernkit.testing.trigger_host import ScriptedTriggerHost as ScriptedTriggerHost

__all__: list[str]
