"""The API of sources."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from generation import tasks
from generation.models import Import, ImportRefusal, Source, SourceRecord
from generation.sources import importers, queries, uploads
from review.common.api import NewestFirst, OldestFirst, paginated_response, validated_body
from review.common.decorators import signed_in_account
from review.common.serializers import ModelRowSerializer
from review.common.waking import wake_after_commit
from review.rules.permissions import Can


class SourceSerializer(ModelRowSerializer):
    """An imported data set, with its licence and citation."""

    row = Source
    shows = "name format label licence citation restrictions created_at"

    records_count = serializers.IntegerField()


class RecordSerializer(ModelRowSerializer):
    """One record, without its private fields."""

    row = SourceRecord
    shows = "id external_id revision title language language_confidence"

    content = serializers.DictField()


class ImportSerializer(ModelRowSerializer):
    """The import of one file into a source, with its progress and results."""

    row = Import
    shows = (
        "id source.name file_name layout status rows added same differs updates refused facets joined error detail "
        "created_at finished_at"
    )

    facets = serializers.DictField(child=serializers.DictField(child=serializers.IntegerField()))
    joined = serializers.DictField(child=serializers.IntegerField())


class RefusalSerializer(ModelRowSerializer):
    """One bad row, or one that differs from the record with its id: its place and the reason."""

    row = ImportRefusal
    shows = "where reason differs"


class UploadSerializer(serializers.Serializer[Any]):
    """A file to import.

    An existing source name adds the file to that source; nothing is added twice. `update`: records
    with a known id and another content become the next revision.
    """

    file = serializers.FileField(max_length=300)
    format = serializers.ChoiceField(choices=importers.available())
    name = serializers.SlugField(max_length=100)
    update = serializers.BooleanField(default=False)  # type: ignore[assignment]  # a field, not the method


class SourceViewSet(ListModelMixin, GenericViewSet[Source]):
    """All sources, oldest first."""

    can = Can.PRODUCE
    serializer_class = SourceSerializer
    pagination_class = OldestFirst
    queryset = queries.sources()
    lookup_field = "name"
    row = "<slug:name>"

    def retrieve(self, request: Request, name: str) -> Response:
        """One source."""
        return Response(SourceSerializer(self.get_object()).data)

    @extend_schema(responses=RecordSerializer(many=True))
    @action(detail=True, serializer_class=RecordSerializer, pagination_class=OldestFirst)
    def records(self, request: Request, name: str) -> Response:
        """The records of a source."""
        return paginated_response(self, queries.records(queries.source(name)))


class ImportViewSet(ListModelMixin, GenericViewSet[Import]):
    """Imports, newest first."""

    can = Can.PRODUCE
    serializer_class = ImportSerializer
    pagination_class = NewestFirst
    parser_classes = [MultiPartParser]
    queryset = queries.imports()

    @extend_schema(request={"multipart/form-data": UploadSerializer}, responses={202: ImportSerializer})
    def create(self, request: Request) -> Response:
        """Upload a file as its authors publish it. A worker reads it."""
        body = validated_body(UploadSerializer, request)
        run = uploads.start_import(
            body["file"],
            format_name=body["format"],
            name=body["name"],
            updates=body["update"],
            actor=signed_in_account(request),
        )
        wake_after_commit(tasks.run_import, run.pk)
        return Response(ImportSerializer(run).data, status=202)

    def retrieve(self, request: Request, pk: int) -> Response:
        """One import and its progress."""
        return Response(ImportSerializer(self.get_object()).data)

    @extend_schema(responses=RefusalSerializer(many=True))
    @action(detail=True, serializer_class=RefusalSerializer, pagination_class=OldestFirst)
    def refusals(self, request: Request, pk: int) -> Response:
        """The bad rows of an import, in file order (the first thousand; `refused` counts all)."""
        return paginated_response(self, ImportRefusal.objects.filter(run=self.get_object()))
