"""The same mistake in several conversations goes on once (MMI-4): semantic clusters over all mistakes of a batch.

Titles with descriptions are embedded, and clustered hierarchically by cosine distance. The medoid of a cluster, the mistake
nearest to all others, goes on for it. The matrix of distances has n * n numbers of 8 bytes (3,390 mistakes: 92 MB), so above
`MOST` mistakes are clustered within their categories.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _

from generation.llm.types import EMBEDDINGS
from generation.recipes.recipe import Arrivals, Barrier, Draft, DraftGroup, MergedDraft, ModelRole, Models
from mhb_site.benchmarks.medmistake.replicating import MADE
from mhb_site.benchmarks.medmistake.talking import is_made

if TYPE_CHECKING:
    import numpy as np

EMBEDDED = 64  # texts a call
MOST = 8_000

# cluster: whether mistakes of different conversations are merged ('semantic') or not ('none'). distance: up to which cosine
# distance clusters are joined. linkage: how the distance of two clusters is measured.
SETTINGS: Mapping[str, Any] = {"cluster": "semantic", "distance": 0.25, "linkage": "average"}
CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "cluster": ("semantic", "none"),
    "linkage": ("average", "complete", "single"),
}
ROLES: tuple[ModelRole, ...] = (
    ModelRole("embedder", _("Embedder: compares mistakes; without it, none are merged"), optional=True, kinds=MADE),
)


def text_of(mistake: Mapping[str, Any]) -> str:
    """What of a mistake is compared."""
    return f"{mistake['title']}. {mistake['description']}"


async def cluster(arrivals: Arrivals, models: Models, settings: Mapping[str, Any]) -> Sequence[DraftGroup]:
    """The groups of mistakes that are one."""
    values = {**SETTINGS, **settings}
    numbers: list[int] = []
    blocks: list[str] = []
    vectors: list[Any] = []
    waiting: list[str] = []
    embeds = values["cluster"] == "semantic" and models.has("embedder")
    async for number, draft in arrivals:
        numbers.append(number)
        blocks.append(draft.data["mistake"]["category"])
        if embeds:
            waiting.append(text_of(draft.data["mistake"]))
            if len(waiting) == EMBEDDED:
                vectors.append(await _embedded(models, waiting))
                waiting = []
    if not embeds:
        return [DraftGroup(number) for number in numbers]
    if waiting:
        vectors.append(await _embedded(models, waiting))
    places: dict[str, list[int]] = defaultdict(list)
    for place, block in enumerate(blocks):
        places[block if len(numbers) > MOST else ""].append(place)
    found = await asyncio.to_thread(_groups, numbers, vectors, list(places.values()), values)
    return sorted(found, key=lambda group: group.lead)


async def _embedded(models: Models, texts: Sequence[str]) -> "np.ndarray[Any, Any]":
    import numpy as np

    return np.asarray(await models.embed("embedder", texts), dtype=np.float32)


def _groups(
    numbers: Sequence[int],
    vectors: Sequence["np.ndarray[Any, Any]"],
    blocks: Sequence[Sequence[int]],
    values: Mapping[str, Any],
) -> list[DraftGroup]:
    """The groups, within each block of places. CPU alone: not for the event loop."""
    import numpy as np

    whole = np.concatenate(vectors)
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    whole = whole / np.where(lengths == 0, 1, lengths)
    return [
        group
        for block in blocks
        for group in _of_block([numbers[place] for place in block], whole[list(block)], values)
    ]


def _of_block(numbers: Sequence[int], vectors: "np.ndarray[Any, Any]", values: Mapping[str, Any]) -> list[DraftGroup]:
    import numpy as np
    from scipy.cluster.hierarchy import cophenet, fcluster, linkage
    from scipy.spatial.distance import squareform

    if len(numbers) == 1:
        return [DraftGroup(numbers[0])]
    distances = np.clip(1.0 - vectors.astype(np.float64) @ vectors.T.astype(np.float64), 0.0, 2.0)
    np.fill_diagonal(distances, 0.0)
    condensed = squareform(distances, checks=False)
    tree = linkage(condensed, method=values["linkage"])
    labels = fcluster(tree, t=values["distance"], criterion="distance")
    heights = squareform(cophenet(tree))
    found = []
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        within = distances[np.ix_(places, places)]
        lead = places[int(np.argmin(within.sum(axis=1)))]  # the first of equals
        others = tuple(
            MergedDraft(
                numbers[int(place)],
                round(float(distances[lead, place]), 6),
                f"Cosine distance {distances[lead, place]:.3f} from the lead; joined at {heights[lead, place]:.3f} "
                f"({values['linkage']} linkage, up to {values['distance']}).",
            )
            for place in places
            if place != lead
        )
        found.append(DraftGroup(numbers[int(lead)], others))
    return found


def join(lead: Draft, others: Sequence[Draft]) -> Mapping[str, Any]:
    """The lead's data, with the mistakes that it stands for, its own first."""
    members = [
        {"conversation": each.record.external_id, "doctor": each.data["doctor"], "title": each.data["mistake"]["title"]}
        for each in (lead, *others)
    ]
    return {**lead.data, "mistake": {**lead.data["mistake"], "members": members}}


def describe(data: Mapping[str, Any]) -> tuple[str, str]:
    """Title and description of a mistake, with its category and risk."""
    mistake = data["mistake"]
    return mistake["title"], f"{mistake['description']} ({mistake['category']}, {mistake['risk']})"


def _asks(draft: Draft) -> Sequence[tuple[str, str]]:
    return [("embedder", EMBEDDINGS)] if {**SETTINGS, **draft.settings}["cluster"] == "semantic" else ()


BARRIER = Barrier("cluster", cluster, describe, join, is_made, _asks)
