"""What the first run of a worker would load, loaded before the worker says that it is ready.

Only what this installation uses: the packages of the providers that published agents name take a
second and forty megabytes.
"""

import logging
import threading

from django.db import DatabaseError, connections

from agents.models import Agent, Provider
from functions import sandbox
from registry.exceptions import CannotBuild
from registry.factory import live_agent

log = logging.getLogger(__name__)
# Providers.
MOST = 20
# A sandbox that is not ready by then is waited for by the first call.
SANDBOX_S = 20.0


def warm_worker() -> None:
    """What fails here fails where it is used. The sandbox starts beside the models."""
    starting = threading.Thread(target=warm_sandbox, name="sandbox", daemon=True)
    starting.start()
    try:
        for agent in one_for_each_provider():
            warm_agent(agent)
    except DatabaseError as error:
        log.warning("Models are loaded at the first message, since the database cannot be read: %s", error)
    finally:
        connections.close_all()
    starting.join(SANDBOX_S)


def warm_sandbox() -> None:
    """With one call, since the first one also loads what checks a function."""
    sandbox.start()
    sandbox.execute("def main():\n    return 1\n", {})


def one_for_each_provider() -> list[Agent]:
    """A published agent of each provider that is not the offline one."""
    rows = Agent.objects.published().filter(provider__enabled=True).exclude(provider__kind=Provider.Kind.OFFLINE)
    # Later agents replace earlier ones: the newest of each provider stays.
    newest = dict(rows.order_by("pk").values_list("provider_id", "pk"))
    chosen = list(newest.values())[:MOST]
    return list(Agent.objects.select_related("published", "provider").filter(pk__in=chosen))


def warm_agent(agent: Agent) -> None:
    try:
        live = live_agent(agent)
        live.model.warm(live.spec.model_name, list(live.tools.values()))
    except CannotBuild as error:
        log.info("The agent “%s” cannot be built: %s", agent.name, error)
    # Of a model library; without warmth the first message is slower, nothing more.
    except Exception:
        log.warning("The model of “%s” could not be loaded", agent.name, exc_info=True)
