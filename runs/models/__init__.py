from .approval import Approval
from .budget import Budget, Hold, Tally
from .call import ModelCall, StepRun, ToolCallRecord
from .duty import Duty
from .embed import Embed
from .event import EventPayload, RunEvent
from .feedback import Feedback
from .file import Artifact
from .input import InputRequest
from .notice import Notice, PushSubscription
from .route import RouteDecision, Worker
from .run import Run, RunValue
from .saved_filter import SavedFilter
from .schedule import Schedule, ScheduleOccurrence
from .session import Attachment, Message, Session
from .share import SharedLink
from .trigger import Trigger, TriggerFiring, Webhook, WebhookDelivery

__all__ = [
    "Approval",
    "Artifact",
    "Attachment",
    "Budget",
    "Duty",
    "Embed",
    "EventPayload",
    "Feedback",
    "Hold",
    "InputRequest",
    "Message",
    "ModelCall",
    "Notice",
    "PushSubscription",
    "RouteDecision",
    "Run",
    "RunEvent",
    "RunValue",
    "SavedFilter",
    "Schedule",
    "ScheduleOccurrence",
    "Session",
    "SharedLink",
    "StepRun",
    "Tally",
    "ToolCallRecord",
    "Trigger",
    "TriggerFiring",
    "Webhook",
    "WebhookDelivery",
    "Worker",
]
