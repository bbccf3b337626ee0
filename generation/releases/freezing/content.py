"""Reads a release's content in chunks: each sample's exported object and the rows to store."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from generation.images.files import exported_paths
from generation.models import BatchRole, ReleasedSample, Rubric, Sample, SampleVersion, Source, SourceRecord
from generation.probes.measuring import ProbeCase
from generation.probes.reading import case_of_sample, is_drawn
from generation.recipes import registry
from generation.recipes.recipe import Term
from generation.releases.exporters.base import canonical
from generation.sources import queries as sources_queries
from review.access.visibility import counted_reviews
from review.rules.state_machine import NOT_SAMPLED, Ground

CHUNK = 500
_COLUMNS = (
    *("pk", "number", "simulated", "sample_id", "sample__task", "sample__arm"),
    *("case_id", "case__ground", "case__language", "case__specialty"),
    *("sample__record__source_id", "sample__record__external_id", "sample__record__shares"),
    *("prompt", "sample__batch_id"),
    *("case__spec__form_version", "content", "citations", "provenance", "generator"),
)
N = TypeVar("N")
Facets = tuple[tuple[str, str], ...]  # (name, value) pairs under which one rubric is counted
Chosen = NDArray[Any]  # the versions of a release in order, and whether each is held out; nine bytes each
CHOSEN = np.dtype([("version", "i8"), ("held_out", "?")])


@dataclass(frozen=True, slots=True)
class FrozenSample:
    """One sample as it is released, with its export object.

    `row`: the version's `_COLUMNS`. `reviews`: physician and whether simulated, of each. `facets`:
    those of each rubric.
    """

    row: Mapping[str, Any]
    split: str
    reviews: Sequence[tuple[int, bool]]
    sample: Mapping[str, Any]
    facets: Sequence[Facets]


class FacetCache:
    """The values under which rubrics are counted, computed once for equal rubrics."""

    def __init__(self, benchmark: str, terms: tuple[Term, ...]) -> None:
        self._benchmark, self._terms = benchmark, terms
        self._fields = registry.facet_fields(benchmark)
        self._known: dict[tuple[str, ...], Facets] = {}

    def of_sample(
        self, task: str, content: Mapping[str, Any], rubrics: Iterable[tuple[Sequence[str], str]]
    ) -> list[Facets]:
        """The facets of each rubric, given by its traps and severity.

        They are the benchmark's own, and the severity if physicians set one.
        """
        fields: Collection[str] | None = self._fields
        if fields is None:
            fields = content
        about = ""
        if fields:
            about = canonical({name: content.get(name) for name in fields})
        per_rubric = []
        for traps, severity in rubrics:
            key = (task, about, severity, *traps)
            if key not in self._known:
                facets = registry.facets(self._benchmark, task, list(traps), self._terms, content)
                if severity:
                    facets = {**facets, "severity": [severity]}
                pairs: list[tuple[str, str]] = []
                for name, values in facets.items():
                    pairs += [(name, str(value)) for value in values]
                self._known[key] = tuple(pairs)
            per_rubric.append(self._known[key])
        return per_rubric


class FacetCounts:
    """Counts samples and rubrics by task, and by the facets of their rubrics."""

    def __init__(self) -> None:
        self._samples: Counter[tuple[str, str]] = Counter()  # by name and value of a facet
        self._tasks: Counter[str] = Counter()  # rubrics
        self._rubrics: Counter[Facets] = Counter()  # by their facets, most of which recur

    def add(self, task: str, facets: Sequence[Facets]) -> None:
        """Add a sample with the facets of each of its rubrics."""
        self._samples["task", task] += 1
        self._tasks[task] += len(facets)
        self._samples.update(set().union(*facets))
        self._rubrics.update(facets)

    def counts(self) -> dict[str, dict[str, dict[str, int]]]:
        """Facet -> value -> {"samples", "rubrics"}."""
        rubrics: Counter[tuple[str, str]] = Counter()
        for task, n in self._tasks.items():
            rubrics["task", task] = n
        for facets, n in self._rubrics.items():
            for pair in facets:
                rubrics[pair] += n
        counts: dict[str, dict[str, dict[str, int]]] = {}
        for name, value in sorted(self._samples):
            cell = {"samples": self._samples[name, value], "rubrics": rubrics[name, value]}
            counts.setdefault(name, {})[value] = cell
        return counts


def chunks(chosen: Chosen) -> Iterator[Chosen]:
    """The chosen versions in chunks."""
    for start in range(0, len(chosen), CHUNK):
        yield chosen[start : start + CHUNK]


def frozen_samples(benchmark: str, chosen: Chosen, terms: tuple[Term, ...], canary: str) -> Iterator[FrozenSample]:
    """The chosen samples, in order."""
    sources = Source.objects.in_bulk()
    facet_cache = FacetCache(benchmark, terms)
    for chunk in chunks(chosen):
        pks = chunk["version"].tolist()
        rubrics = _rubrics(pks)
        rows = {row["pk"]: row for row in SampleVersion.objects.filter(pk__in=pks).values(*_COLUMNS)}
        reviewers = _reviewers_of([row["case_id"] for row in rows.values()])
        images: list[str] = []
        for row in rows.values():
            images += row["content"].get("images", ())
        paths = exported_paths(images)
        for pk, is_held_out in chunk.tolist():
            row, split = rows[pk], ReleasedSample.Split.PUBLIC
            if is_held_out:
                split = ReleasedSample.Split.HELD_OUT
            reviews = reviewers[row["case_id"]]
            source = sources[row["sample__record__source_id"]]
            sample, facets = _export_object(benchmark, row, source, rubrics[pk], dict(reviews), facet_cache)
            if digests := row["content"].get("images"):
                # Exports have the images as files beside the samples.
                image_files = [paths[image] for image in digests if image in paths]
                sample["content"] = {**row["content"], "image_files": image_files}
            sample |= {"split": split, "canary": canary}
            yield FrozenSample(row, split, reviews, sample, facets)


def labelled_case(benchmark: str, entry: FrozenSample, total: int) -> ProbeCase | None:
    """A sample as probes see it; None if it is not labelled, or not drawn of so many samples."""
    source, key = entry.sample["source"], entry.sample["sample_id"]
    if not is_drawn(f"{source['dataset']}\n{source['id']}", total):
        return None
    identity = (source["dataset"], source["id"], entry.row["sample__record__shares"], entry.row["generator"])
    held_out = entry.split != ReleasedSample.Split.PUBLIC
    return case_of_sample(benchmark, key, entry.row["content"], *identity, held_out=held_out)


def _rubrics(pks: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    by_version: dict[int, list[dict[str, Any]]] = defaultdict(list)
    rows = Rubric.objects.filter(version__in=pks, removed=False).order_by("pk")
    for version, key, approved, criterion, traps, severity, polarity in rows.values_list(
        "version_id", "key", "approved", "criterion", "traps", "severity", "polarity"
    ):
        rubric = {"key": key, "criterion": approved or criterion, "traps": traps, "severity": severity}
        if polarity:
            rubric["polarity"] = polarity
        by_version[version].append(rubric)
    return by_version


def _reviewers_of(cases: Sequence[int]) -> dict[int, list[tuple[int, bool]]]:
    """Case -> (physician, whether simulated) for each of its reviews."""
    by_case: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    rows = counted_reviews().filter(case__in=cases).order_by()
    for case, physician, simulated in rows.values_list("case_id", "physician_id", "physician__simulated"):
        by_case[case].append((physician, simulated))
    return by_case


def _export_object(
    benchmark: str,
    row: Mapping[str, Any],
    source: Source,
    rubrics: list[dict[str, Any]],
    reviewers: Mapping[int, bool],
    facet_cache: FacetCache,
) -> tuple[dict[str, Any], list[Facets]]:
    task, content, ground = row["sample__task"], row["content"], row["case__ground"]
    per_rubric = facet_cache.of_sample(task, content, [(rubric["traps"], rubric["severity"]) for rubric in rubrics])
    facets: dict[str, list[str]] = {}
    pairs: set[tuple[str, str]] = set().union(*per_rubric)
    for name, value in sorted(pairs):
        facets.setdefault(name, []).append(value)
    review = {"ground": ground, "physicians": len(reviewers)}
    # Only present if they apply: samples reviewed by people must keep their bytes.
    if ground == Ground.UNREVIEWED:
        review["status"] = NOT_SAMPLED
    if simulated := sum(reviewers.values()):
        review["simulated_physicians"] = simulated
    return {
        "sample_id": Sample.key_of(benchmark, task, row["sample_id"]),
        "version": row["number"],
        "benchmark": benchmark,
        "task": task,
        "simulated": row["simulated"],
        "language": row["case__language"],
        "specialty": row["case__specialty"],
        "arm": row["sample__arm"],
        "source": {
            "dataset": source.name,
            "format": source.format,
            "id": row["sample__record__external_id"],
            "licence": source.licence,
        },
        "content": content,
        "facets": facets,
        "citations": row["citations"],
        "made": row["provenance"],
        "review": review,
        "rubrics": rubrics,
    }, per_rubric


class ReleaseTotals:
    """Counts of a release: samples and rubrics by task and facet value.

    Also how samples were made and reviewed.
    """

    def __init__(self) -> None:
        self.samples = self.rubrics = self.reviews = self.simulated_reviews = self.held_out = self.regenerated = 0
        self.simulated = False
        self.grounds: Counter[str] = Counter()
        self.sources: Counter[int] = Counter()
        self.prompts: Counter[str] = Counter()
        self.batches: set[int] = set()
        # Version of the review form -> position of the first sample reviewed with it.
        self.forms: dict[int | None, int] = {}
        self.reviewers: dict[int, bool] = {}  # physician -> whether simulated
        self._provenance: dict[str, Counter[str]] = defaultdict(Counter)
        self.facets = FacetCounts()
        self._strata: Counter[tuple[str, ...]] = Counter()

    def add(self, entry: FrozenSample) -> None:
        sample, row = entry.sample, entry.row
        if sample["review"]["ground"] != Ground.UNREVIEWED:
            self.forms.setdefault(row["case__spec__form_version"], self.samples)
        self.samples += 1
        self.rubrics += len(sample["rubrics"])
        self.reviews += len(entry.reviews)
        self.held_out += entry.split != ReleasedSample.Split.PUBLIC
        self.regenerated += sample["version"] > 1
        self.simulated |= sample["simulated"]
        self.simulated_reviews += "simulated_physicians" in sample["review"]
        self.grounds[sample["review"]["ground"]] += 1
        self.sources[row["sample__record__source_id"]] += 1
        self.prompts[row["prompt"]] += 1
        self.batches.add(row["sample__batch_id"])
        self.reviewers.update(entry.reviews)
        for name, value in sample["made"].items():
            self._provenance[name][value] += 1
        self.facets.add(sample["task"], entry.facets)
        if draw := registry.recipe(sample["benchmark"]).review_draw:
            values = {"task": sample["task"], **sample["content"]}
            self._strata[tuple(str(values.get(key, "")) for key in draw.strata)] += 1

    def strata(self, benchmark: str) -> dict[str, Any]:
        """The samples by the strata of which a fixed number is drawn for review, if it is."""
        draw = registry.recipe(benchmark).review_draw
        rows = [[*stratum, n] for stratum, n in sorted(self._strata.items())]
        if draw:
            return {"strata": {"by": list(draw.strata), "rows": rows}}
        return {}

    def provenance(self) -> dict[str, dict[str, int]]:
        return sorted_counts(self._provenance)


def sorted_counts(counts: Mapping[str, Mapping[str, N]]) -> dict[str, dict[str, N]]:
    """Counts by name and value, both in alphabetical order."""
    return {name: dict(sorted(values.items())) for name, values in sorted(counts.items())}


def sources(chosen: Chosen, sample_counts: Mapping[int, int]) -> list[dict[str, Any]]:
    """The sources of the samples, and those joined with them when the samples were made.

    `sample_counts`: source -> its number of samples. Joined sources have the number of samples they
    took part in.
    """
    joined: Counter[int] = Counter()
    for chunk in chunks(chosen):
        versions = SampleVersion.objects.filter(pk__in=chunk["version"].tolist()).order_by()
        records = SourceRecord.objects.only("pk").filter(samples__versions__in=versions, refers__isnull=False)
        partners = sources_queries.partners(list(records.distinct()))
        versions_made = versions.filter(sample__record__in=partners).values_list("sample__record", "created_at")
        for record_id, made_at in versions_made:
            existed = [partner for partner in partners[record_id] if partner.source.created_at <= made_at]
            joined.update({partner.source_id for partner in existed})
    direct = _released_sources(sample_counts, joined=False)
    names = {source["name"] for source in direct}
    others = [source for source in _released_sources(joined, joined=True) if source["name"] not in names]
    return [*direct, *others]


def _released_sources(sample_counts: Mapping[int, int], *, joined: bool) -> list[dict[str, Any]]:
    sources = []
    for source in Source.objects.filter(pk__in=sample_counts).order_by("name"):
        sources.append(
            {
                "name": source.name,
                "label": source.label,
                "licence": source.licence,
                "citation": source.citation,
                "restrictions": source.restrictions,
                "samples": sample_counts[source.pk],
                "joined": joined,
            }
        )
    return sources


def generators(batches: Collection[int]) -> list[str]:
    """The models that made these samples, as `model (endpoint)`.

    Stored with the release, so that the data card cannot drift.
    """
    bound = BatchRole.objects.filter(batch__in=batches)
    return sorted({f"{model} ({name})" for model, name in bound.values_list("endpoint__model", "endpoint__name")})
