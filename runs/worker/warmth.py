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
MOST = 20  # providers


def warm_up() -> None:
    """What fails here fails where it is used. The sandbox starts beside it: a first call that comes
    too early waits for the rest of that.
    """
    threading.Thread(target=sandbox.start, name="sandbox", daemon=True).start()
    try:
        for agent in one_for_each_provider():
            warm(agent)
    except DatabaseError as error:
        log.warning("Models are loaded at the first message, since the database cannot be read: %s", error)
    finally:
        connections.close_all()


def one_for_each_provider() -> list[Agent]:
    """A published agent of each provider that is not the offline one."""
    rows = Agent.objects.published().filter(provider__enabled=True).exclude(provider__kind=Provider.Kind.OFFLINE)
    chosen = dict(rows.order_by("pk").values_list("provider_id", "pk"))  # the newest of each
    return list(Agent.objects.select_related("published", "provider").filter(pk__in=[*chosen.values()][:MOST]))


def warm(agent: Agent) -> None:
    try:
        live = live_agent(agent)
        live.model.warm(live.spec.model_name)
    except CannotBuild as error:
        log.info("The agent “%s” cannot be built: %s", agent.name, error)
    except Exception:
        log.warning("The model of “%s” could not be loaded", agent.name, exc_info=True)
