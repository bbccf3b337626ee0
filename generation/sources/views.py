"""Pages of sources and records."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django_htmx.http import HttpResponseClientRefresh

from generation.common.storage import discard
from generation.errors import GenerationError, SourceExists, UnknownUpload
from generation.jobs.live_status import live_workers
from generation.models import ImportRefusal, SavedMapping, Source, SourceRecord
from generation.models.work import Work
from generation.samples import queries as samples_queries
from generation.sources import (
    forms,
    importers,
    own_tables,
    queries,
    record_kinds,
    services,
    translated_reasons,
    uploads,
)
from generation.sources.importers import LimitsExceeded, WrongFormat
from generation.sources.importers.table_mapping import TableMapping
from review.common.decorators import posted_data, render_form, requires, signed_in_account
from review.common.paging import keyset_page
from review.rules.blocks import Images, Picture
from review.rules.permissions import Can

Status = Work.Status
REFERRING_SHOWN = 20  # on the page of a record


@requires(Can.PRODUCE)
def sources(request: HttpRequest) -> HttpResponse:
    """All sources, and the form that imports a file into one."""
    if request.method == "POST":
        form = forms.ImportForm(request.POST, request.FILES)
    else:
        form = forms.ImportForm()
    if form.is_valid():
        data = form.cleaned_data
        upload = uploads.keep(data["file"])
        try:
            format_name = data["format"] or uploads.recognised_format(upload)
            if format_name == importers.TABLE:
                services.check_format(data["name"], importers.TABLE)
                address = reverse("generation:source-table", args=[data["name"], upload.token])
                if data["update"]:
                    address += "?update=on"
                return redirect(address)
            uploads.start_import(
                upload,
                format_name=format_name,
                name=data["name"],
                updates=data["update"],
                actor=signed_in_account(request),
            )
        except GenerationError as error:
            field = "file"
            if isinstance(error, SourceExists):
                field = "name"
            form.add_error(field, str(error))
            discard(upload.path)
        else:
            return redirect("generation:source", data["name"])
    formats = [(name, importers.load(name)) for name in importers.available()]
    context = {
        "sources": queries.sources(archived="archived" in request.GET),
        "archived": Source.objects.exclude(archived_at=None).count(),
        "form": form,
        "formats": formats,
    }
    return render_form(request, "generation/sources/sources.html", context, refused=form.errors)


@requires(Can.PRODUCE, "GET", "POST", acting=True)
def source_table(request: HttpRequest, name: str, token: str) -> HttpResponse:
    """Say what the columns of an uploaded table are, look at its first records, and import it."""
    try:
        upload = uploads.kept(token)
    except UnknownUpload as error:
        messages.error(request, str(error))
        return redirect("generation:sources")
    posted = posted_data(request)
    asked = None
    if "mapping" in request.GET:
        asked = request.GET
    choice = forms.SavedMappingForm(asked)
    form = forms.TableForm(
        posted,
        initial={"update": "update" in request.GET},
        has_source=Source.objects.filter(name=name).exists(),
    )
    mapping = None
    if form.is_valid():
        mapping = form.mapping
    if choice.is_valid() and posted is None:
        mapping = TableMapping.model_validate(choice.cleaned_data["mapping"].mapping)
    try:
        preview = own_tables.preview(upload.path, name, mapping)
    except (WrongFormat, LimitsExceeded, OSError) as error:
        messages.error(request, f"{upload.name}: {translated_reasons.translated(str(error))}")
        return redirect("generation:sources")
    if mapping and preview.problem and form.is_bound:
        form.add_error(None, translated_reasons.translated(preview.problem))
    if "import" in request.POST and form.is_valid():
        try:
            uploads.start_import(
                upload,
                format_name=importers.TABLE,
                name=name,
                updates=form.cleaned_data["update"],
                table=form.own_table,
                actor=signed_in_account(request),
            )
        except GenerationError as error:
            form.add_error(None, str(error))
        else:
            if form.cleaned_data["save_as"]:
                own_tables.save_mapping(form.cleaned_data["save_as"], form.mapping, signed_in_account(request))
            return redirect("generation:source", name)
    chosen: Mapping[str, str] = preview.mapping.fields
    problem, saved_choice, records = preview.problem, None, []
    if form.is_bound:
        chosen, problem = form.chosen, ""
    if SavedMapping.objects.exists():
        saved_choice = choice
    if not form.errors:
        records = [_previewed(record) for record in preview.records]
    context = {
        "name": name,
        "file_name": upload.name,
        "form": form,
        "choice": saved_choice,
        "problem": problem,
        "found": translated_reasons.translated(preview.found.partition(";")[0]),
        "columns": [(column, examples, chosen.get(column, "")) for column, examples in preview.columns],
        "fields": {"": _("Not used"), **own_tables.FIELD_LABELS}.items(),
        "records": records,
    }
    return render_form(request, "generation/sources/table.html", context, refused=form.errors)


def _previewed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of a preview with the labels of its parts."""
    parts = [(forms.PART_LABELS.get(part, part), text) for part, text in record.get("parts", ())]
    return {**record, "kind": record_kinds.kind_label(record.get("kind", "")), "parts": parts}


@requires(Can.PRODUCE, "GET")
def source(request: HttpRequest, name: str) -> HttpResponse:
    """One source: its terms, imports, refusals and records."""
    source_ = queries.source(name)
    refusals = ImportRefusal.objects.filter(run__source=source_).select_related("run")
    context = {
        "source": source_,
        **_imports(source_),
        "records": keyset_page(queries.records(source_, archived="archived" in request.GET), request, size=25),
        "archived": queries.records(source_, archived=True).count(),
        "refusals": keyset_page(refusals, request, size=25, newest_first=True, name="refusal"),
    }
    return render(request, "generation/sources/source.html", context)


@requires(Can.PRODUCE, "GET")
def source_imports(request: HttpRequest, name: str) -> HttpResponse:
    """The current imports of a source, for polling; reloads the page once all have ended."""
    source_ = queries.source(name)
    context = _imports(source_)
    if not context["importing"]:
        return HttpResponseClientRefresh()
    return render(request, "generation/sources/_imports.html", {"source": source_, **context})


def _imports(source: Source) -> dict[str, object]:
    imports = list(queries.imports().filter(source=source)[:20])
    importing = any(run.status in (Status.QUEUED, Status.RUNNING) for run in imports)
    return {
        "imports": imports,
        "importing": importing,
        "idle": importing and not live_workers(runs_tasks=True).exists(),
    }


@requires(Can.PRODUCE, "GET")
def record(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """One record; its private part is not read."""
    source_ = queries.source(name)
    row = get_object_or_404(SourceRecord.objects.defer("private"), source=source_, pk=pk)
    referring = list(queries.records_referring_to(row)[: REFERRING_SHOWN + 1])
    context = {
        "source": source_,
        "record": row,
        "passages": _passages(row.content),
        "options": _options(row.content),
        "images": _images(row.content),
        "texts": _texts(row.content),
        "partners": queries.partners([row])[row.pk],
        "referring": referring[:REFERRING_SHOWN],
        "more_referring": len(referring) > REFERRING_SHOWN,
        "samples": samples_queries.samples().filter(record=row),
    }
    return render(request, "generation/sources/record.html", context)


def _images(content: Mapping[str, Any]) -> Images | None:
    """The images of a record as a block."""
    digests, question = content.get("images") or (), str(content.get("question", ""))
    if digests:
        return Images(str(_("Images")), tuple(Picture(sha256, question) for sha256 in digests))
    return None


def _passages(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(section name or '', text) of the passages that a question is asked with."""
    texts = content.get("contexts") or content.get("knowledge") or []
    return list(zip_longest(content.get("sections") or [], texts, fillvalue=""))


def _options(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(letter, text) of each option. Some formats keep them as a mapping, others as pairs."""
    return list(dict(content.get("options") or {}).items())


_TEXTS = (
    ("premise", _("Premise")),
    ("hypothesis", _("Hypothesis")),
    ("statement", _("Statement")),
    ("context", _("Context")),
    ("abstract", _("Abstract")),
    ("shorter_abstract", _("Shorter abstract")),
    ("explanation", _("Explanation")),
)


def _texts(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) of a record's other texts; options and extractions are joined by line."""
    texts = []
    for key, label in _TEXTS:
        text = content.get(key)
        if isinstance(text, str) and text:
            texts.append((str(label), text))
    options, extractions = content.get("options"), content.get("extractions")
    if isinstance(options, dict):
        lines = [f"{letter}. {text}" for letter, text in options.items()]
        texts.append((str(_("Options")), "\n".join(lines)))
    if isinstance(extractions, list):
        lines = []
        for extraction in extractions:
            name_parts = (extraction["category"], extraction["concept"], extraction["reference"])
            lines.append(f"{' / '.join(filter(None, name_parts))}: {extraction['value']}")
        texts.append((str(_("Extractions")), "\n".join(lines)))
    return texts
