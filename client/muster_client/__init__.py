"""A typed client of Muster, synchronous (`Muster`) and asynchronous (`AsyncMuster`).

from muster_client import Muster

muster = Muster()
answer = muster.agent("helper").message("What is 17 * 23?").send()
print(answer.text)
"""

from ._async.agents import AsyncAgent, AsyncAnswer, AsyncConversation, AsyncMessage
from ._async.client import AsyncMuster
from ._async.pages import AsyncPages
from ._async.questions import AsyncApproval, AsyncInputRequest
from ._async.runs import AsyncRun
from ._async.stream import AsyncStream
from ._sync.agents import Agent, Answer, Conversation, Message
from ._sync.client import Muster
from ._sync.pages import Pages
from ._sync.questions import Approval, InputRequest
from ._sync.runs import Run
from ._sync.stream import Stream
from ._version import __version__
from .errors import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    MusterError,
    NotFoundError,
    RateLimitedError,
    ServerError,
    StreamCutError,
    TooLargeError,
)
from .events import Event

__all__ = [
    "APIConnectionError", "APIError", "APITimeoutError", "Agent", "Answer", "Approval", "AsyncAgent",
    "AsyncAnswer", "AsyncApproval", "AsyncConversation", "AsyncInputRequest", "AsyncMessage", "AsyncMuster",
    "AsyncPages", "AsyncRun", "AsyncStream", "AuthenticationError", "BadRequestError", "ConfigurationError",
    "ConflictError", "Conversation", "Event", "ForbiddenError", "InputRequest", "InvalidError", "Message",
    "Muster", "MusterError", "NotFoundError", "Pages", "RateLimitedError", "Run", "ServerError", "Stream",
    "StreamCutError", "TooLargeError", "__version__",
]  # fmt: skip
