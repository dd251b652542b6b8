from .agent import Agent, AgentVersion
from .agent_options import AgentSpec
from .audit import AuditEvent
from .browser import BrowserSession
from .chain import Chain, ChainStep, ChainVersion
from .file import StoredFile
from .hold import SiteHold
from .hook import Hook
from .idempotency import IdempotentRequest
from .invitation import Invitation
from .item import StoredItem
from .key import ApiKey
from .preference import Preference
from .prompt import Prompt
from .provider import Provider
from .secret import Secret
from .starter import Starter
from .team import Membership, Team
from .tool import Tool, ToolGrant
from .user import User

__all__ = [
    "Agent",
    "AgentSpec",
    "AgentVersion",
    "ApiKey",
    "AuditEvent",
    "BrowserSession",
    "Chain",
    "ChainStep",
    "ChainVersion",
    "SiteHold",
    "Hook",
    "IdempotentRequest",
    "Invitation",
    "Membership",
    "Preference",
    "Prompt",
    "Provider",
    "Secret",
    "Starter",
    "StoredFile",
    "StoredItem",
    "Team",
    "Tool",
    "ToolGrant",
    "User",
]
