"""The API of sources."""

from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from generation.jobs.serializers import fields_of
from generation.models import Import, ImportRefusal, SavedMapping, Source, SourceRecord
from generation.sources import importers, own_tables, queries, services, uploads
from generation.sources.own_tables import OwnTable
from generation.sources.reading import TablePreview
from generation.sources.settings import ImportSettings
from review.common.actions import Body, acts, answers
from review.common.api import NewestFirst, OldestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, extended, rows_of, serializer_of
from review.rules.permissions import Can

MAX_MAPPING = 50_000  # characters

SourceSerializer = rows_of(
    "Source",
    Source,
    "name format label licence citation restrictions created_at",
    "An imported data set, with its licence and citation.",
    records_count=serializers.IntegerField(),
)

RecordSerializer = rows_of(
    "Record",
    SourceRecord,
    "id external_id revision title language language_confidence",
    "One record, without its private fields.",
    content=serializers.DictField(),
)

ImportSerializer = rows_of(
    "Import",
    Import,
    """id file_name layout status rows added same differs updates refused error detail created_at
    finished_at""",
    "The import of one file into a source, with its progress and results.",
    source=serializers.CharField(source="source.name"),
    facets=serializers.DictField(child=serializers.DictField(child=serializers.IntegerField())),
    joined=serializers.DictField(child=serializers.IntegerField()),
    oddities=serializers.DictField(),
)

RefusalSerializer = rows_of(
    "Refusal",
    ImportRefusal,
    "where reason differs",
    "One bad row, or one that differs from the record with its id: its place and the reason.",
)

UPLOAD_BODY: Fields = {
    "file": serializers.FileField(max_length=300),
    "format": serializers.ChoiceField(choices=importers.available()),
    "name": serializers.SlugField(
        max_length=100, help_text="An existing source gets the file added; nothing is added twice."
    ),
    "mapping": serializers.CharField(
        default="",
        allow_blank=True,
        max_length=MAX_MAPPING,
        help_text="Of the format `table`: the name of a saved mapping, or as JSON"
        " {columns: {field: [column]}, values: {field: value}}.",
    ),
    **fields_of(ImportSettings),
}

PREVIEW_UPLOAD_BODY: Fields = {
    "file": serializers.FileField(max_length=300),
    "mapping": serializers.CharField(
        default="",
        allow_blank=True,
        max_length=MAX_MAPPING,
        help_text="Empty: guessed from the names of the columns.",
    ),
}

TablePreviewSerializer = extended(
    "TablePreview",
    serializer_of(TablePreview),
    """What a table was recognised as: columns with their first values, mapping, and first records.

    `problem`: why the mapping does not fit the table.
    """,
    columns=serializers.ListField(child=serializers.ListField()),
    mapping=serializers.DictField(source="mapping.model_dump"),
)


class SavedMappingSerializer(serializers.ModelSerializer[SavedMapping]):
    """Which column of a table is which field, saved under a name."""

    name = serializers.SlugField(max_length=100)  # an existing one is replaced
    mapping = serializers.DictField()

    class Meta:
        model = SavedMapping
        fields = ["name", "mapping", "created_at"]
        read_only_fields = ["created_at"]


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

    @answers(RecordSerializer, paged=True)
    @action(detail=True, pagination_class=OldestFirst)
    def records(self, request: Request, name: str) -> Any:
        """The records of a source."""
        return queries.records(queries.source(name))


class ImportViewSet(ListModelMixin, GenericViewSet[Import]):
    """Imports, newest first."""

    can = Can.PRODUCE
    serializer_class = ImportSerializer
    pagination_class = NewestFirst
    parser_classes = [MultiPartParser]
    queryset = queries.imports()

    @answers(ImportSerializer, body=UPLOAD_BODY, status=202)
    def create(self, request: Request, body: Body) -> Any:
        """Upload a file as its authors publish it. A worker reads it."""
        mapping = own_tables.stated_mapping(body["mapping"])
        table = None
        if mapping:
            table = OwnTable(mapping, **{name: body[name] for name in own_tables.TERMS})
        return uploads.start_import(
            body["file"],
            format_name=body["format"],
            name=body["name"],
            updates=body["update"],
            table=table,
            actor=signed_in_account(request),
        )

    def retrieve(self, request: Request, pk: int) -> Response:
        """One import and its progress."""
        return Response(ImportSerializer(self.get_object()).data)

    @acts(ImportSerializer)
    def cancel(self, request: Request, pk: int) -> Any:
        """Cancel an import. Records already added stay. 409 if it is over."""
        return services.cancel_import(self.get_object().pk)

    @answers(RefusalSerializer, paged=True)
    @action(detail=True, pagination_class=OldestFirst)
    def refusals(self, request: Request, pk: int) -> Any:
        """The bad rows of an import, in file order (the first thousand; `refused` counts all)."""
        return ImportRefusal.objects.filter(run=self.get_object())


class PreviewTable(APIView):
    """The columns of a table, before it is imported."""

    can = Can.PRODUCE
    parser_classes = [MultiPartParser]

    @answers(TablePreviewSerializer, body=PREVIEW_UPLOAD_BODY)
    def post(self, request: Request, body: Body) -> Any:
        """Upload a table and see what it was recognised as; nothing is kept."""
        mapping = own_tables.stated_mapping(body["mapping"])
        return uploads.preview_table(body["file"], mapping)


class SavedMappings(APIView):
    """The mappings saved under a name."""

    can = Can.PRODUCE

    @answers(SavedMappingSerializer, many=True, operation_id="imports_mappings_list")
    def get(self, request: Request) -> Any:
        """List them by name."""
        return SavedMapping.objects.order_by("name")

    @answers(SavedMappingSerializer, body=SavedMappingSerializer, status=201)
    def post(self, request: Request, body: Body) -> Any:
        """Save a mapping; one of the same name is replaced."""
        mapping = own_tables.read_mapping(body["mapping"])
        return own_tables.save_mapping(body["name"], mapping, signed_in_account(request))
