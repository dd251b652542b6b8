from .approval import Approval
from .budget import Budget
from .call import ModelCall, StepRun, ToolCallRecord
from .event import EventPayload, RunEvent
from .route import RouteDecision, Worker
from .run import Run, RunFile, RunValue
from .session import Message, Session

__all__ = [
    "Approval",
    "Budget",
    "EventPayload",
    "Message",
    "ModelCall",
    "RouteDecision",
    "Run",
    "RunEvent",
    "RunFile",
    "RunValue",
    "Session",
    "StepRun",
    "ToolCallRecord",
    "Worker",
]
