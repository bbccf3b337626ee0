"""Pages of sources and records."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRefresh

from generation import tasks
from generation.errors import GenerationError, SourceExists
from generation.jobs.live_status import living_workers
from generation.models import ImportRefusal, Source
from generation.models.work import Work
from generation.samples import queries as samples_queries
from generation.sources import forms, importers, queries, uploads
from review.common.decorators import requires, signed_in_account
from review.common.paging import keyset
from review.common.waking import wake_after_commit
from review.rules.blocks import Images, Picture
from review.rules.permissions import Can

Status = Work.Status
REFERRING_SHOWN = 20  # records that refer to one


@requires(Can.PRODUCE)
def sources(request: HttpRequest) -> HttpResponse:
    """All sources, and the form that imports a file into one."""
    form = forms.ImportForm(request.POST, request.FILES) if request.method == "POST" else forms.ImportForm()
    if form.is_valid():
        data = form.cleaned_data
        try:
            run = uploads.start_import(
                data["file"], format_name=data["format"], name=data["name"], actor=signed_in_account(request)
            )
        except GenerationError as error:
            form.add_error("name" if isinstance(error, SourceExists) else "file", str(error))
        else:
            wake_after_commit(tasks.run_import, run.pk)
            return redirect("generation:source", data["name"])
    formats = [(name, importers.load(name)) for name in importers.available()]
    context = {"sources": queries.sources(), "form": form, "formats": formats}
    return render(request, "generation/sources/sources.html", context, status=422 if form.errors else 200)


@require_safe
@requires(Can.PRODUCE)
def source(request: HttpRequest, name: str) -> HttpResponse:
    """One source: its terms, imports, refusals and records."""
    found = queries.source(name)
    refusals = ImportRefusal.objects.filter(run__source=found).select_related("run")
    context = {
        "source": found,
        **_imports(found),
        "records": keyset(queries.records(found), request, size=25),
        "refusals": keyset(refusals, request, size=25, newest_first=True, name="refusal"),
    }
    return render(request, "generation/sources/source.html", context)


@require_safe
@requires(Can.PRODUCE)
def source_imports(request: HttpRequest, name: str) -> HttpResponse:
    """The imports of a source as they stand; once all have ended, the page is loaded afresh."""
    found = queries.source(name)
    context = _imports(found)
    if not context["importing"]:
        return HttpResponseClientRefresh()
    return render(request, "generation/sources/_imports.html", {"source": found, **context})


def _imports(source: Source) -> dict[str, object]:
    imports = list(queries.imports().filter(source=source)[:20])
    importing = any(run.status in (Status.QUEUED, Status.RUNNING) for run in imports)
    return {"imports": imports, "importing": importing, "idle": importing and not living_workers().exists()}


@require_safe
@requires(Can.PRODUCE)
def record(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """One record as it may be shown; its private part is not even read."""
    found = queries.source(name)
    row = get_object_or_404(queries.records(found), pk=pk)
    referring = list(queries.records_referring_to(row)[: REFERRING_SHOWN + 1])
    context = {
        "source": found,
        "record": row,
        "passages": _passages(row.content),
        "images": _images(row.content),
        "texts": _texts(row.content),
        "partners": queries.partners([row])[row.pk],
        "referring": referring[:REFERRING_SHOWN],
        "more_referring": len(referring) > REFERRING_SHOWN,
        "samples": samples_queries.samples().filter(record=row),
    }
    return render(request, "generation/sources/record.html", context)


def _images(content: Mapping[str, Any]) -> Images | None:
    """The images of a record, in a block."""
    digests, about = content.get("images") or (), str(content.get("question", ""))
    return Images(str(_("Images")), tuple(Picture(sha256, about) for sha256 in digests)) if digests else None


def _passages(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name or '', text) of the passages that a question is put with."""
    texts = content.get("contexts") or content.get("knowledge") or []
    return list(zip_longest(content.get("sections") or [], texts, fillvalue=""))


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
    """(label, text) of the other texts of a record; options and extractions are lines of one."""
    found = [(str(label), content[key]) for key, label in _TEXTS if isinstance(content.get(key), str) and content[key]]
    options, extractions = content.get("options"), content.get("extractions")
    if isinstance(options, dict):
        found.append((str(_("Options")), "\n".join(f"{letter}. {text}" for letter, text in options.items())))
    if isinstance(extractions, list):
        said = (" / ".join(filter(None, (one["category"], one["concept"], one["reference"]))) for one in extractions)
        lines = (f"{name}: {one['value']}" for name, one in zip(said, extractions, strict=True))
        found.append((str(_("Extractions")), "\n".join(lines)))
    return found
