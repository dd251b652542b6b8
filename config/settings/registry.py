"""Model servers, the router, and the tools that a model is shown."""

from config.settings.environment import env

# model of agents without one, at an OpenAI-compatible server such as MUSTER_LOCAL_MODEL; empty: the first it serves
LOCAL_MODEL_NAME = env.str("MUSTER_LOCAL_MODEL_NAME", default="")
# seconds of silence after which a model server is asked again
MODEL_SILENCE_S = env.float("MUSTER_MODEL_SILENCE", default=120.0)

OFFLINE_SCRIPT = env.str("MUSTER_OFFLINE_SCRIPT", default="")  # file of prepared answers of the offline provider

# The router's model: "provider:model" of a site provider, or empty to match capabilities and words.
ROUTER_MODEL = env.str("MUSTER_ROUTER_MODEL", default="")
# "provider:model" with an OpenAI-compatible /embeddings endpoint, or empty
ROUTER_EMBEDDINGS = env.str("MUSTER_ROUTER_EMBEDDINGS", default="")
# minimum cosine similarity for an agent; depends on the embedding model
ROUTER_NEAR = env.float("MUSTER_ROUTER_NEAR", default=0.2)
ROUTER_AHEAD = env.float("MUSTER_ROUTER_AHEAD", default=0.01)  # minimum lead over the next agent

# an agent with more tools than this is shown a few and the tool search_tools
TOOLS_SHOWN = env.int("MUSTER_TOOLS_SHOWN", default=40)
