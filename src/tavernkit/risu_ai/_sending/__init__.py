"""A whole send: prompt, request, reply, and what follows from the reply. The model is the caller's."""

from tavernkit.risu_ai._sending.exchange import Failure, ModelRequest, RequestFailedError, RequestStoppedError
from tavernkit.risu_ai._sending.result import SendError, SendResult

__all__ = ["Failure", "ModelRequest", "RequestFailedError", "RequestStoppedError", "SendError", "SendResult"]
