"""The API of releases."""

from typing import Any

from django.db.models import Prefetch
from django.http import FileResponse, HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from generation.jobs.serializers import SettingsSerializer, fields_of
from generation.models import Freeze, Release, ReleasedRubric, ReleasedSample
from generation.recipes.serializers import known_benchmark
from generation.releases import archive, comparing, data_card, export, exporters, queries, ratings, services
from generation.releases.comparing import Change, SampleChange
from generation.releases.export import ExportSettings
from generation.releases.freezing.card_fields import CARD_FIELDS, MOST
from generation.releases.freezing.composition import Composition
from generation.releases.services import FreezePreview
from generation.samples import errata
from generation.samples.api import ErratumSerializer
from generation.samples.funnel import FunnelReport
from generation.samples.queries import sees_held_out
from generation.samples.validity import Validity
from review.common.actions import Body, answers
from review.common.api import (
    NewestFirst,
    OldestFirst,
    ShortDictField,
    validated_body,
)
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, WithValues, related, rows_of, serializer_of
from review.rules.limits import MAX_ID
from review.rules.permissions import Can


class CountSerializer(serializers.Serializer[Any]):
    """Samples and rubrics of a release with one value of a facet."""

    samples = serializers.IntegerField()
    rubrics = serializers.IntegerField()


class ReleasedSourceSerializer(serializers.Serializer[Any]):
    """A source used by a release. `joined`: its records are not samples themselves; they were joined
    with records that became samples.
    """

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    licence = serializers.CharField()
    citation = serializers.CharField()
    restrictions = serializers.CharField()
    samples = serializers.IntegerField()
    joined = serializers.BooleanField(default=False)


ReleaseSerializer = rows_of(
    "Release",
    Release,
    "name version benchmark samples_count rubrics_count simulated sha256 created_at",
    """A frozen, versioned, checksummed set of approved samples.

    `sha256` is that of its JSON Lines export.
    """,
    created_by=related("created_by.username"),
)

WholeReleaseSerializer = rows_of(
    "WholeRelease",
    Release,
    "held_out_count held_out_sha256",
    """A release with its composition. `counts`: facet, value, samples and rubrics.

    `provenance`: how samples were made, by name and value. `statuses`: how many samples physicians
    `approved`, and how many are `not-sampled`: no physician saw them. `grounds`: why samples were
    approved. `reviewers`: `physicians` that reviewed, how many of them are `simulated`, and the
    `simulated_samples` that these reviewed; empty: the release is older than these counts.
    `shares`: of each task among the samples. `marker`: the canary of the release: a text that is in
    every sample and nowhere else. `card`: the texts that its makers gave for the data card.
    `funnel`: from drawn records to these samples; null in releases frozen before this was counted.
    `withheld`: sources whose text must not be published: share exports by reference.
    """,
    extends=ReleaseSerializer,
    marker=serializers.CharField(source="canary"),
    generators=serializers.ListField(child=serializers.CharField()),
    withheld=serializers.ListField(child=serializers.CharField()),
    provenance=serializers.DictField(child=serializers.DictField(child=serializers.IntegerField())),
    grounds=serializers.DictField(child=serializers.IntegerField()),
    reviewers=serializers.DictField(child=serializers.IntegerField()),
    statuses=serializers.DictField(child=serializers.IntegerField()),
    excluded=serializers.DictField(child=serializers.IntegerField()),
    unreviewed=serializers.IntegerField(),
    composition=serializers.DictField(),
    shares=serializers.DictField(child=serializers.FloatField()),
    card=serializers.DictField(child=serializers.CharField()),
    counts=serializers.DictField(child=serializers.DictField(child=CountSerializer())),
    sources=ReleasedSourceSerializer(many=True),
    errata=ErratumSerializer(many=True),
    judgments=serializer_of(Validity)(many=True),
    funnel=serializer_of(FunnelReport)(allow_null=True),
)


def _whole_release(release: Release, reader: object) -> WithValues:
    return WithValues(
        release,
        shares=queries.task_shares(release),
        errata=list(errata.errata_of(release, reader)),
        judgments=queries.judgments(release),
        card=release.about.get("card", {}),
        composition=_composition(release, reader),
        funnel=queries.funnel_of(release),
        withheld=queries.withheld_sources(release),
    )


def _composition(release: Release, reader: object) -> dict[str, Any]:
    """Without the seed for those who could work out from it which records are held out.

    A release that happens to hold out none shares its seed with others.
    """
    composition = dict(release.composition)
    if composition.get("held_out") and not sees_held_out(reader):
        composition.pop("seed", None)
    return composition


class FreezeSerializer(SettingsSerializer):
    """A release to freeze.

    An existing name gets its next version. `preview`: only show what would go in (200).
    """

    settings_class = Composition

    name = serializers.SlugField(max_length=100)
    benchmark = serializers.CharField(max_length=64, validators=[known_benchmark])
    preview = serializers.BooleanField(default=False)
    card = ShortDictField(
        child=serializers.CharField(allow_blank=True, max_length=MOST),
        default=dict,
        help_text=f"Texts for the data card: {', '.join(CARD_FIELDS)}. One that is missing stays as in the previous"
        " version; '-' removes it.",
    )


FreezeStatusSerializer = rows_of(
    "FreezeStatus",
    Freeze,
    "id name benchmark composition status total read error detail created_at finished_at",
    """A release being frozen.

    `read` of `total` samples are read; `release` is there once it is `done`.
    """,
    created_by=related("created_by.username"),
    release=serializers.CharField(source="release.reference", allow_null=True, default=None, help_text="NAME@VERSION"),
)

ReleasedRubricSerializer = rows_of(
    "ReleasedRubric",
    ReleasedRubric,
    "key criterion severity polarity",
    "A rubric as approved by physicians, with the harm they expect; if nobody reviewed it, as generated.",
    traps=serializers.ListField(child=serializers.CharField()),
)

ReleasedSampleSerializer = rows_of(
    "ReleasedSample",
    ReleasedSample,
    "position key task split",
    """A sample as released.

    `exported` is its object in the export; `rubrics` are listed beside it.
    """,
    exported=serializers.DictField(),
    rubrics=ReleasedRubricSerializer(many=True),
)

SAMPLES_QUERY: Fields = {
    "text": serializers.CharField(default="", max_length=200, help_text="In the key, the title or a criterion."),
    "task": serializers.CharField(default="", max_length=40),
    "facet": serializers.CharField(default="", max_length=200, help_text="NAME=VALUE, for example `subtype=A1`."),
    "split": serializers.ChoiceField(choices=ReleasedSample.Split.values, default=""),
}


# How a release differs from another: counts, and a page of the samples that differ.
CHANGES: Fields = {
    "before": serializers.CharField(help_text="NAME@VERSION"),
    "after": serializers.CharField(help_text="NAME@VERSION"),
    "counts": serializers.DictField(
        child=serializers.IntegerField(),
        help_text="`added`, `removed`, `reworded`; `re-released`: the same words, but another version, split, review or"
        " severity; `unchanged`.",
    ),
    "samples": serializer_of(SampleChange)(many=True),
}

CHANGES_QUERY: Fields = {
    "since": serializers.CharField(max_length=120, help_text="NAME@VERSION, or NAME for the latest."),
    "change": serializers.ChoiceField(choices=Change.values, default=""),
    "start": serializers.IntegerField(default=0, min_value=0, max_value=MAX_ID),
    "most": serializers.IntegerField(default=100, min_value=0, max_value=500),
}


SPLIT_QUERY = {"split": fields_of(ExportSettings)["split"]}
EXPORT_QUERY: Fields = {
    "format": serializers.ChoiceField(choices=exporters.available(), default="jsonl"),
    **fields_of(ExportSettings),
}


class ReleaseViewSet(ListModelMixin, GenericViewSet[Release]):
    """Releases, newest first."""

    can = {"GET": Can.READ_RESULTS, "POST": Can.PRODUCE}
    serializer_class = ReleaseSerializer
    pagination_class = NewestFirst
    queryset = queries.releases()
    row = "<slug:name>/<int:version>"

    @extend_schema(request=FreezeSerializer, responses={200: serializer_of(FreezePreview), 202: FreezeStatusSerializer})
    def create(self, request: Request) -> Response:
        """Freeze the chosen samples as the next version of a name. A worker does it; follow `freezes/{id}/`.

        409 if nothing is approved; 422 if simulated and real samples would be mixed.
        """
        body = validated_body(FreezeSerializer, request)
        name, benchmark = body.pop("name"), body.pop("benchmark")
        preview, card = body.pop("preview"), body.pop("card")
        composition = Composition(**body)
        if preview:
            freeze_preview = services.preview(name, benchmark=benchmark, composition=composition)
            return Response(serializer_of(FreezePreview)(freeze_preview).data)
        actor = signed_in_account(request)
        row = services.start_freeze(name, benchmark=benchmark, composition=composition, card=card, actor=actor)
        return Response(FreezeStatusSerializer(row).data, status=202)

    @answers(WholeReleaseSerializer)
    def retrieve(self, request: Request, name: str, version: int) -> Any:
        """One release with its composition."""
        return _whole_release(queries.release(name, version), request.user)

    @answers(ReleasedSampleSerializer, query=SAMPLES_QUERY, paged=True)
    @action(detail=True, pagination_class=OldestFirst)
    def samples(self, request: Request, query: Body, name: str, version: int) -> Any:
        """The samples of a release, in its order; held-out samples are for admins only."""
        rubrics = Prefetch("rubrics", ReleasedRubric.objects.order_by("pk"))
        rows = queries.released_samples(queries.release(name, version), request.user, **query)
        return rows.prefetch_related(rubrics)

    @answers(
        query=EXPORT_QUERY,
        responses={(200, "application/jsonl"): OpenApiTypes.STR, (200, "application/zip"): OpenApiTypes.BINARY},
    )
    @action(detail=True)
    def export(self, request: Request, query: Body, name: str, version: int) -> HttpResponseBase:
        """The whole release as a file: the same release and format give the same bytes."""
        format_name = query.pop("format")
        release, split = queries.release(name, version), queries.readable_split(request.user, query["split"])
        settings = ExportSettings(**query)
        if format_name == "jsonl" and not settings.by_reference and not settings.stages:
            return FileResponse(
                export.open_samples(release, split),
                as_attachment=True,
                filename=f"{name}-v{version}.jsonl",
                content_type="application/jsonl",
            )
        return archive.download(export.Export(release, format_name, **settings.model_dump()))

    @answers(query=SPLIT_QUERY, responses={(200, "text/csv"): OpenApiTypes.STR})
    @action(detail=True)
    def ratings(self, request: Request, query: Body, name: str, version: int) -> HttpResponseBase:
        """Physicians' answers as CSV: one row per review and question, under pseudonyms."""
        split = queries.readable_split(request.user, query["split"])
        return ratings.download_of(queries.release(name, version), split)

    @answers(CHANGES, query=CHANGES_QUERY)
    @action(detail=True)
    def changes(self, request: Request, query: Body, name: str, version: int) -> Any:
        """How a release differs from another of its benchmark; held-out samples are for admins only."""
        release = queries.release(name, version)
        difference = comparing.compare(queries.release(query["since"]), release, request.user)
        samples: Any = difference.samples(query["change"], query["start"], query["most"])
        shown: Any = {**difference.summary, "samples": samples}
        return shown

    @extend_schema(responses={(200, "text/markdown"): OpenApiTypes.STR})
    @action(detail=True, url_path="data-card", url_name="card")
    def data_card(self, request: Request, name: str, version: int) -> HttpResponse:
        """The release's data card, as Markdown."""
        card = data_card.data_card(queries.release(name, version))
        return HttpResponse(card, content_type="text/markdown; charset=utf-8")


class FreezeViewSet(ListModelMixin, GenericViewSet[Freeze]):
    """Freezes of releases, in progress or finished, newest first."""

    can = Can.PRODUCE
    serializer_class = FreezeStatusSerializer
    pagination_class = NewestFirst
    queryset = queries.freezes()

    def retrieve(self, request: Request, pk: int) -> Response:
        """One freeze and its progress."""
        return Response(FreezeStatusSerializer(self.get_object()).data)
