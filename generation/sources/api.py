"""The API of sources."""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from generation import tasks
from generation.models import Import, ImportRefusal, Source, SourceRecord
from generation.sources import importers, queries, uploads
from review.common.api import NewestFirst, OldestFirst, sent
from review.common.decorators import person
from review.rules.permissions import Can


class SourceSerializer(serializers.ModelSerializer[Source]):
    """An imported data set, with its licence and citation."""

    records_count = serializers.IntegerField()

    class Meta:
        model = Source
        fields = ["name", "format", "label", "licence", "citation", "restrictions", "created_at", "records_count"]


class RecordSerializer(serializers.ModelSerializer[SourceRecord]):
    """One record, without its private fields."""

    content = serializers.DictField()

    class Meta:
        model = SourceRecord
        fields = ["id", "external_id", "title", "language", "content"]


class ImportSerializer(serializers.ModelSerializer[Import]):
    """The import of one file into a source, with its progress and results."""

    source = serializers.CharField(source="source.name")  # type: ignore[assignment]
    facets = serializers.DictField(child=serializers.DictField(child=serializers.IntegerField()))
    joined = serializers.DictField(child=serializers.IntegerField())

    class Meta:
        model = Import
        fields = [
            "id",
            "source",
            "file_name",
            "layout",
            "status",
            "rows",
            "added",
            "known",
            "refused",
            "facets",
            "joined",
            "error",
            "detail",
            "created_at",
            "finished_at",
        ]


class RefusalSerializer(serializers.ModelSerializer[ImportRefusal]):
    """One bad row: its place in the file and why it was refused."""

    class Meta:
        model = ImportRefusal
        fields = ["where", "reason"]


class UploadSerializer(serializers.Serializer[Any]):
    """A file to import. An existing source name adds the file to that source; nothing is added twice."""

    file = serializers.FileField(max_length=300)
    format = serializers.ChoiceField(choices=importers.available())
    name = serializers.SlugField(max_length=100)


class Sources(ListAPIView[Source]):
    """All sources, oldest first."""

    can = Can.PRODUCE
    serializer_class = SourceSerializer
    pagination_class = OldestFirst
    queryset = queries.sources()


class SourceDetail(RetrieveAPIView[Source]):
    """One source."""

    can = Can.PRODUCE
    serializer_class = SourceSerializer
    queryset = queries.sources()
    lookup_field = "name"


class Records(ListAPIView[SourceRecord]):
    """The records of a source."""

    can = Can.PRODUCE
    serializer_class = RecordSerializer
    pagination_class = OldestFirst
    queryset = SourceRecord.objects.none()

    def get_queryset(self) -> QuerySet[SourceRecord]:
        return queries.records(queries.source(self.kwargs["name"]))


class Imports(ListAPIView[Import]):
    """Imports, newest first."""

    can = Can.PRODUCE
    serializer_class = ImportSerializer
    pagination_class = NewestFirst
    parser_classes = [MultiPartParser]
    queryset = queries.imports()

    @extend_schema(request={"multipart/form-data": UploadSerializer}, responses={202: ImportSerializer})
    def post(self, request: Request) -> Response:
        """Upload a file as its authors publish it. A worker reads it."""
        body = sent(UploadSerializer, request)
        run = uploads.start_import(body["file"], format_name=body["format"], name=body["name"], actor=person(request))
        transaction.on_commit(partial(tasks.wake, tasks.run_import, run.pk))
        return Response(ImportSerializer(run).data, status=202)


class ImportDetail(RetrieveAPIView[Import]):
    """One import and its progress."""

    can = Can.PRODUCE
    serializer_class = ImportSerializer
    queryset = queries.imports()


class Refusals(ListAPIView[ImportRefusal]):
    """The bad rows of an import, in file order (the first thousand; `refused` counts all)."""

    can = Can.PRODUCE
    serializer_class = RefusalSerializer
    pagination_class = OldestFirst
    queryset = ImportRefusal.objects.all()

    def get_queryset(self) -> QuerySet[ImportRefusal]:
        run = get_object_or_404(queries.imports(), pk=self.kwargs["pk"])
        return super().get_queryset().filter(run=run)
