"""The same mistake in several conversations goes on once (MMI-4): semantic clusters over all mistakes of a batch.

Titles with descriptions are embedded, and clustered hierarchically by cosine distance. The medoid of a cluster, the mistake
nearest to all others, goes on for it. All vectors are held in memory, and eight bytes for each pair of mistakes twice, so above
`MOST` mistakes are clustered within their categories.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _

from generation.llm.types import EMBEDDINGS
from generation.recipes.recipe import Arrivals, Barrier, Draft, DraftGroup, MergedDraft, ModelRole, Models, NearDraft
from mhb_site.benchmarks.medmistake.conversation import is_made
from mhb_site.benchmarks.medmistake.replication import MADE

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
    if not _compares(values, models):
        return [DraftGroup(number) async for number, _draft in arrivals]
    async for some, embedded in _embedded_arrivals(arrivals, models):
        numbers += [number for number, _draft in some]
        blocks += [draft.data["mistake"]["category"] for _number, draft in some]
        vectors.append(embedded)
    places: dict[str, list[int]] = defaultdict(list)
    for place, block in enumerate(blocks):
        places[block if len(numbers) > MOST else ""].append(place)
    found = await asyncio.to_thread(_groups, numbers, vectors, list(places.values()), values)
    return sorted(found, key=lambda group: group.lead)


async def near(
    arrivals: Arrivals, earlier: Arrivals, models: Models, settings: Mapping[str, Any]
) -> Sequence[NearDraft]:
    """The mistakes that came after a round, each with the nearest of those that it sent on, as far as that is near enough."""
    import numpy as np

    values = {**SETTINGS, **settings}
    if not _compares(values, models):
        return []
    numbers: list[int] = []
    vectors: list[Any] = []
    async for some, embedded in _embedded_arrivals(arrivals, models):
        numbers += [number for number, _draft in some]
        vectors.append(_unit(embedded))
    late = np.concatenate(vectors)
    distances, nearest = np.full(len(numbers), np.inf), np.zeros(len(numbers), dtype=np.int64)
    async for some, embedded in _embedded_arrivals(earlier, models):
        there = 1.0 - late @ _unit(embedded).T
        places = there.argmin(axis=1)
        found = there[np.arange(len(numbers)), places]
        closer = found < distances
        distances[closer] = found[closer]
        nearest[closer] = np.array([number for number, _draft in some])[places[closer]]
    return [
        NearDraft(number, int(there), max(0.0, round(float(distance), 6)), f"Cosine distance {max(0.0, distance):.3f}.")
        for number, there, distance in zip(numbers, nearest, distances, strict=True)
        if distance <= values["distance"]
    ]


def _compares(values: Mapping[str, Any], models: Models) -> bool:
    return bool(values["cluster"] == "semantic" and models.has("embedder"))


async def _embedded_arrivals(
    arrivals: Arrivals, models: Models
) -> AsyncIterator[tuple[list[tuple[int, Draft]], "np.ndarray[Any, Any]"]]:
    """Mistakes with their vectors, as many at a time as a call takes."""
    some: list[tuple[int, Draft]] = []
    async for arrival in arrivals:
        some.append(arrival)
        if len(some) == EMBEDDED:
            yield some, await _embedded(models, some)
            some = []
    if some:
        yield some, await _embedded(models, some)


async def _embedded(models: Models, some: Sequence[tuple[int, Draft]]) -> "np.ndarray[Any, Any]":
    import numpy as np

    texts = [text_of(draft.data["mistake"]) for _number, draft in some]
    return np.asarray(await models.embed("embedder", texts), dtype=np.float32)


def _unit(vectors: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: np.ndarray[Any, Any] = vectors / np.where(lengths == 0, 1, lengths)
    return found


def _groups(
    numbers: Sequence[int],
    vectors: Sequence["np.ndarray[Any, Any]"],
    blocks: Sequence[Sequence[int]],
    values: Mapping[str, Any],
) -> list[DraftGroup]:
    """The groups, within each block of places. CPU alone: not for the event loop."""
    import numpy as np

    whole = _unit(np.concatenate(vectors))
    return [
        group
        for block in blocks
        for group in _of_block([numbers[place] for place in block], whole[list(block)], values)
    ]


def _of_block(numbers: Sequence[int], vectors: "np.ndarray[Any, Any]", values: Mapping[str, Any]) -> list[DraftGroup]:
    import numpy as np
    from scipy.cluster.hierarchy import cophenet, fcluster, linkage

    if len(numbers) == 1:
        return [DraftGroup(numbers[0])]
    precise = vectors.astype(np.float64)
    tree = linkage(_condensed(precise), method=values["linkage"])
    labels = fcluster(tree, t=values["distance"], criterion="distance")
    heights = cophenet(tree)
    found = []
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        within = _distances(precise[places], precise[places])
        np.fill_diagonal(within, 0.0)
        first = int(np.argmin(within.sum(axis=1)))  # of equals
        others = tuple(
            MergedDraft(
                numbers[int(place)],
                round(float(distance), 6),
                f"Cosine distance {distance:.3f} from the lead; joined at "
                f"{heights[_index(len(numbers), int(place), int(places[first]))]:.3f} "
                f"({values['linkage']} linkage, up to {values['distance']}).",
            )
            for place, distance in zip(places, within[first], strict=True)
            if place != places[first]
        )
        found.append(DraftGroup(numbers[int(places[first])], others))
    return found


def _distances(one: "np.ndarray[Any, Any]", other: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Cosine distances of vectors of length 1."""
    import numpy as np

    found: np.ndarray[Any, Any] = np.clip(1.0 - one @ other.T, 0.0, 2.0)
    return found


def _condensed(vectors: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The distance of each pair once, row by row; the square matrix, which has each twice, is never whole in memory."""
    import numpy as np

    count = len(vectors)
    found, at = np.empty(count * (count - 1) // 2), 0
    for start in range(0, count, EMBEDDED):
        rows = _distances(vectors[start : start + EMBEDDED], vectors[start:])
        for number, row in enumerate(rows, 1):
            found[at : at + len(row) - number] = row[number:]
            at += len(row) - number
    return found


def _index(count: int, one: int, other: int) -> int:
    """Where the distance of two of so many stands among those of `_condensed`."""
    low, high = sorted((one, other))
    return count * low - low * (low + 1) // 2 + high - low - 1


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


BARRIER = Barrier("cluster", cluster, describe, join, is_made, _asks, near)
