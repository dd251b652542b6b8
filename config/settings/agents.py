"""Definitions, the catalogue of tools, and what is removed with a person."""

# The kinds of definitions, ordered so that each only refers to earlier ones.
DEFINITION_KINDS = [
    "agents.definitions.agents.ProviderKind",
    "functions.definitions.FunctionKind",
    "knowledge.skills.definitions.SkillKind",
    "knowledge.collections.definitions.CollectionKind",
    "agents.definitions.agents.ToolKind",
    "agents.definitions.agents.AgentKind",
    "agents.definitions.chains.ChainKind",
]
# Functions that create the catalogue's built-in tools; `init_db` calls each.
CATALOGUES = [
    "connectors.accounts.catalog.offer_tools",
    "devices.catalog.ensure_tools",
    "knowledge.catalog.ensure_tools",
]
# Tries what a model can do, when a provider is tested.
MODEL_TRIAL = "registry.llm.trial.try_model"
# functions that remove what deleted rows left in the database's files; called after a person was deleted
SCRUBS = ["knowledge.full_text.scrub"]
