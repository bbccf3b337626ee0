"""Semantic clusters over all mistakes of a batch: each cluster continues as one mistake.

Titles with descriptions are embedded and clustered hierarchically by cosine distance. The medoid of
a cluster, the mistake nearest to all others, continues for it. Memory holds all vectors and twice
eight bytes per pair of mistakes, so more than `MAX_TOGETHER` mistakes are clustered within their
categories.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from generation.llm.types import EMBEDDINGS
from generation.recipes.recipe import Arrivals, Barrier, Draft, DraftGroup, MergedDraft, Models, NearDraft
from mhb_site.benchmarks.medmistake import presets
from mhb_site.benchmarks.medmistake.conversation import is_generated

Vectors = NDArray[Any]
BATCH_SIZE = 64  # texts per call
MAX_TOGETHER = 8_000


# cluster: whether mistakes of different conversations are merged ('semantic') or not ('none').
# distance: the maximum cosine distance at which clusters are joined. linkage: how the distance of
# two clusters is measured.


async def cluster(arrivals: Arrivals, models: Models, settings: Mapping[str, Any]) -> Sequence[DraftGroup]:
    """Group the arrived mistakes that are the same."""
    values = {**presets.DEFAULTS, **settings}
    numbers: list[int] = []
    blocks: list[str] = []
    vectors: list[Any] = []
    if not _is_enabled(values, models):
        return [DraftGroup(number) async for number, _draft in arrivals]
    async for batch_numbers, drafts, batch_vectors in _embedded_batches(arrivals, models):
        numbers += batch_numbers
        blocks += [draft.data["mistake"]["category"] for draft in drafts]
        vectors.append(batch_vectors)
    places: dict[str, list[int]] = defaultdict(list)
    if len(numbers) <= MAX_TOGETHER:
        blocks = [""] * len(numbers)
    for place, block in enumerate(blocks):
        places[block].append(place)
    groups = await asyncio.to_thread(_cluster_blocks, numbers, vectors, list(places.values()), values)
    return sorted(groups, key=attrgetter("lead"))


async def similar_ones(
    arrivals: Arrivals, earlier: Arrivals, models: Models, settings: Mapping[str, Any]
) -> Sequence[NearDraft]:
    """Compare mistakes that arrived after a round with those that it sent on.

    Returns the late mistakes within `distance` of an earlier one, each with the nearest.
    """
    values = {**presets.DEFAULTS, **settings}
    if not _is_enabled(values, models):
        return []
    numbers: list[int] = []
    vectors: list[Any] = []
    async for batch_numbers, _drafts, batch_vectors in _embedded_batches(arrivals, models):
        numbers += batch_numbers
        vectors.append(_normalise(batch_vectors))
    late = np.concatenate(vectors)
    distances, nearest = np.full(len(numbers), np.inf), np.zeros(len(numbers), dtype=np.int64)
    async for batch_numbers, _drafts, batch_vectors in _embedded_batches(earlier, models):
        batch_distances = 1.0 - late @ _normalise(batch_vectors).T
        places = batch_distances.argmin(axis=1)
        batch_minimum = batch_distances[np.arange(len(numbers)), places]
        closer = batch_minimum < distances
        distances[closer] = batch_minimum[closer]
        nearest[closer] = np.array(batch_numbers)[places[closer]]
    near = []
    for number, earlier_number, distance in zip(numbers, nearest.tolist(), distances.tolist(), strict=True):
        if distance <= values["distance"]:
            distance = max(0.0, distance)
            near.append(NearDraft(number, earlier_number, round(distance, 6), f"Cosine distance {distance:.3f}."))
    return near


def _is_enabled(values: Mapping[str, Any], models: Models) -> bool:
    return bool(values["cluster"] == "semantic" and models.has("embedder"))


async def _embedded_batches(
    arrivals: Arrivals, models: Models
) -> AsyncIterator[tuple[list[int], list[Draft], Vectors]]:
    """The mistakes with their numbers and vectors, one batch per call."""
    numbers: list[int] = []
    drafts: list[Draft] = []
    async for number, draft in arrivals:
        numbers.append(number)
        drafts.append(draft)
        if len(drafts) == BATCH_SIZE:
            yield numbers, drafts, await _embed(models, drafts)
            numbers, drafts = [], []
    if drafts:
        yield numbers, drafts, await _embed(models, drafts)


async def _embed(models: Models, drafts: Sequence[Draft]) -> Vectors:
    texts = []
    for draft in drafts:
        mistake = draft.data["mistake"]
        texts.append(f"{mistake['title']}. {mistake['description']}")
    return np.asarray(await models.embed("embedder", texts), dtype=np.float32)


def _normalise(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.where(lengths == 0, 1, lengths)
    return unit


def _cluster_blocks(
    numbers: Sequence[int],
    vectors: Sequence[Vectors],
    blocks: Sequence[Sequence[int]],
    values: Mapping[str, Any],
) -> list[DraftGroup]:
    """The groups within each block of positions. CPU-bound: run it outside the event loop."""
    whole = _normalise(np.concatenate(vectors))
    groups: list[DraftGroup] = []
    for block in blocks:
        groups += _cluster_block([numbers[place] for place in block], whole[list(block)], values)
    return groups


def _cluster_block(numbers: Sequence[int], vectors: Vectors, values: Mapping[str, Any]) -> list[DraftGroup]:
    from scipy.cluster.hierarchy import cophenet, fcluster, linkage

    if len(numbers) == 1:
        return [DraftGroup(numbers[0])]
    points = vectors.astype(np.float64)
    tree = linkage(_condensed_distances(points), method=values["linkage"])
    labels = fcluster(tree, t=values["distance"], criterion="distance")
    heights = cophenet(tree)
    groups = []
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        distances = _distances(points[places], points[places])
        np.fill_diagonal(distances, 0.0)
        medoid = int(np.argmin(distances.sum(axis=1)))  # the first one in a tie
        lead = int(places[medoid])
        others = []
        for place, distance in zip(places.tolist(), distances[medoid].tolist(), strict=True):
            if place == lead:
                continue
            joined_at = heights[_condensed_index(len(numbers), place, lead)]
            why = (
                f"Cosine distance {distance:.3f} from the lead; joined at {joined_at:.3f} "
                f"({values['linkage']} linkage, up to {values['distance']})."
            )
            others.append(MergedDraft(numbers[place], round(distance, 6), why))
        groups.append(DraftGroup(numbers[lead], tuple(others)))
    return groups


def _distances(one: Vectors, other: Vectors) -> Vectors:
    """Cosine distances of unit vectors."""
    distances: Vectors = np.clip(1.0 - one @ other.T, 0.0, 2.0)
    return distances


def _condensed_distances(vectors: Vectors) -> Vectors:
    """The distances of all pairs, each once, row by row.

    The square matrix, which has each distance twice, is never complete in memory.
    """
    count = len(vectors)
    distances, position = np.empty(count * (count - 1) // 2), 0
    for start in range(0, count, BATCH_SIZE):
        rows = _distances(vectors[start : start + BATCH_SIZE], vectors[start:])
        for number, row in enumerate(rows, 1):
            distances[position : position + len(row) - number] = row[number:]
            position += len(row) - number
    return distances


def _condensed_index(count: int, one: int, other: int) -> int:
    """The index in `_condensed_distances` of the distance between two of `count` items."""
    low, high = sorted((one, other))
    return count * low - low * (low + 1) // 2 + high - low - 1


def join(lead: Draft, others: Sequence[Draft]) -> Mapping[str, Any]:
    """The lead's data with the list of merged mistakes, its own first."""
    members = []
    for draft in (lead, *others):
        conversation, title = draft.record.external_id, draft.data["mistake"]["title"]
        members.append({"conversation": conversation, "doctor": draft.data["doctor"], "title": title})
    return {**lead.data, "mistake": {**lead.data["mistake"], "members": members}}


def describe(data: Mapping[str, Any]) -> tuple[str, str]:
    """Title and description of a mistake, with category and risk."""
    mistake = data["mistake"]
    return mistake["title"], f"{mistake['description']} ({mistake['category']}, {mistake['risk']})"


def _asks_embedder(draft: Draft) -> Sequence[tuple[str, str]]:
    if presets.settings(draft)["cluster"] == "semantic":
        return [("embedder", EMBEDDINGS)]
    return ()


BARRIER = Barrier("cluster", cluster, describe, join, is_generated, _asks_embedder, similar_ones)
