"""Embeddings that a caller asks for: within budgets, and recorded as a run that has ended."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.exceptions import Invalid, RateLimited, Unavailable
from agents.models import ApiKey, Provider
from agents.models.provider import units
from plumbing.statements import insert_rows
from registry.exceptions import AttemptFailed, ModelFailed
from registry.llm.bids import Bid
from registry.routing import embeddings
from runs.exceptions import RunEnded, RunWaits
from runs.models import Run
from runs.queue import budgets, endings

Vectors = list[embeddings.Vector]


def embed_texts(
    user: Any, key: ApiKey | None, provider: Provider, model: str, texts: list[str], *, dimensions: int | None = None,
    limit_s: float | None = None,
) -> tuple[Vectors, int]:  # fmt: skip
    """Unit vectors of these texts, and their tokens. The texts are not stored. `limit_s` bounds the whole request.

    Raises Invalid (no_embeddings), RateLimited (budget_exhausted), Unavailable.
    """
    now = timezone.now()
    run = Run(
        principal=user, key=key, status=Run.Status.RUNNING, created_at=now, started_at=now,
        input={"texts": len(texts)}, metadata={"embeddings": f"{provider.name}:{model}"},
    )  # fmt: skip
    watch = budgets.Watch(run)
    hold_embedding_budget(watch, provider, model, sum(len(text.encode()) + 1 for text in texts))
    try:
        vectors, tokens = embeddings.embed_and_count(provider, model, texts, dimensions=dimensions, limit_s=limit_s)
    except (ModelFailed, AttemptFailed) as error:
        watch.release()
        raise describe_embedding_failure(error)
    except BaseException:
        watch.release()
        raise
    record_embedding_run(run, watch, tokens, provider.cost(model, tokens, 0))
    return vectors, tokens


def hold_embedding_budget(watch: budgets.Watch, provider: Provider, model: str, most: int) -> None:
    def cost(input_tokens: int, output_tokens: int) -> int:
        return units(provider.cost(model, input_tokens, 0))

    bid = Bid(most_input=most, likely_input=most // 4 + 1, most_output=1, is_fixed=True, cost=cost)
    try:
        watch.hold(lambda: bid)
    except RunEnded as error:
        raise RateLimited(str(error), code="budget_exhausted", hint="Wait until the budget's period ends, or raise it.")
    except RunWaits:
        raise RateLimited(
            "Calls in progress have reserved the rest of a budget.", code="budget_held", hint="Try again soon."
        )


@transaction.atomic
def record_embedding_run(run: Run, watch: budgets.Watch, tokens: int, cost: Any) -> None:
    run.input_tokens, run.cost = tokens, cost
    insert_rows(run)
    watch.settle(tokens, cost)
    endings.finish_run(run, Run.Status.SUCCEEDED)


def describe_embedding_failure(error: ModelFailed | AttemptFailed) -> Exception:
    if error.code in ("no_embeddings", "private_address"):
        return Invalid(error.message, code=error.code)
    return Unavailable(
        f"The embedding server did not answer as it should: {error.message}",
        code="embeddings_failed",
        hint="Try again. If it lasts, check the provider of the embedding model.",
    )
