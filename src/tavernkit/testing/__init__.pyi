from tavernkit.models._scripted import Answer as Answer
from tavernkit.models._scripted import Body as Body
from tavernkit.models._scripted import Disconnect as Disconnect
from tavernkit.models._scripted import Failure as Failure
from tavernkit.models._scripted import Hang as Hang
from tavernkit.models._scripted import RawBytes as RawBytes
from tavernkit.models._scripted import ScriptedModel as ScriptedModel
from tavernkit.models._scripted import ScriptExhaustedError as ScriptExhaustedError
from tavernkit.models._scripted import answer as answer
from tavernkit.models._scripted import calls as calls
from tavernkit.models._scripted import failure as failure
from tavernkit.models._scripted import streamed as streamed
from tavernkit.models._scripted import tool_call as tool_call
from tavernkit.models._scripted import usage as usage
from tavernkit.testing._risu_ai import ScriptedTriggerHost as ScriptedTriggerHost
from tavernkit.testing._risu_ai import memory_models as memory_models
from tavernkit.testing._servers import HttpReply as HttpReply
from tavernkit.testing._servers import HttpRequest as HttpRequest
from tavernkit.testing._servers import LoopbackServer as LoopbackServer
from tavernkit.testing._servers import serve as serve
from tavernkit.testing._servers import serve_in_thread as serve_in_thread

__all__: list[str]
