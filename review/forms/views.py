"""The pages on which admins edit the review form of a benchmark."""

from collections.abc import Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from review import errors
from review.answers.answer_form import fill_form
from review.common.decorators import redirect_saying, requires, signed_in_account
from review.discussion import guidelines
from review.forms import editor, queries, services
from review.forms.check import STAGES
from review.forms.design import SETTINGS, Design, FormFault, apply_design
from review.labels import CITATION_KINDS, POLICY_SETTINGS
from review.models import Guideline, ReviewForm
from review.rules.permissions import Can
from review.rules.questions import Answers
from review.rules.state_machine import State
from review.rules.text import whole_number


@requires(Can.OVERSEE, "GET")
def forms(request: HttpRequest) -> HttpResponse:
    """The review form of each benchmark, with its versions."""
    versions = [(name, queries.form_in_force(name), list(queries.versions(name))) for name in queries.names()]
    return render(request, "review/forms/forms.html", {"benchmarks": versions})


@requires(Can.OVERSEE)
def form_edit(request: HttpRequest, benchmark: str) -> HttpResponse:
    """The editor.

    Every button posts the whole form, which is changed and shown again, or published.
    """
    current = _current(benchmark)
    if request.method != "POST":
        number = whole_number(request.GET.get("version", ""), 6)
        if number is None:
            shown_version = current
        else:
            shown_version = queries.versions(benchmark).filter(version=number).first()
        return _editor(request, benchmark, queries.design_of(benchmark, shown_version), current)
    design = editor.design_from_post(request.POST)
    if request.POST.get("do") != "publish":
        return _editor(request, benchmark, design, current)
    try:
        version = services.publish(
            signed_in_account(request),
            benchmark=benchmark,
            design=design,
            note=request.POST.get("note", "").replace("\0", "").strip(),
            base=whole_number(request.POST.get("base", ""), 6) or 0,
            texts=_posted_guidelines(request, benchmark),
        )
    except errors.FormFaulty as faulty:
        return _editor(request, benchmark, design, current, faults=faulty.faults, status=faulty.status)
    except (errors.StaleForm, errors.StaleGuideline, errors.TooLong) as stale:
        # Keep the input, but as an edit of the version that is now in force.
        return _editor(request, benchmark, design, current, refused=stale.message, status=stale.status)
    return _published(request, version)


def _published(request: HttpRequest, row: ReviewForm) -> HttpResponse:
    done = _("Version %(version)d is now in effect. Cases opened from now on use it.") % {"version": row.version}
    return redirect_saying(request, done, "review:forms")


def _current(benchmark: str) -> ReviewForm | None:
    """The version in force. Raises Http404 if the benchmark has no form to edit."""
    if benchmark not in queries.names():
        raise Http404
    return queries.form_in_force(benchmark)


def _editor(
    request: HttpRequest,
    benchmark: str,
    design: Design,
    current: ReviewForm | None,
    *,
    faults: Sequence[FormFault] = (),
    refused: str = "",
    status: int = 200,
) -> HttpResponse:
    sample = queries.edited_sample(benchmark)
    fields = editor.Editor(design, queries.locked(benchmark), faults)
    opened_list, opened_row = editor.opened(design, request.POST.get("do", ""))
    if opened_list != "questions":
        opened_row = 0
    base, share, hours = 0, "", ""
    if current:
        base = current.version
    if design.share is not None:
        share = request.POST.get("share", str(design.share))
    if design.objection_hours is not None:
        hours = request.POST.get("objection_hours", str(design.objection_hours))
    policy_settings = []
    for name in SETTINGS:
        label, about = POLICY_SETTINGS[name]
        policy_settings.append(
            {
                "name": name,
                "value": design.policy.get(name),
                "default": getattr(sample.policy, name),
                "errors": fields.errors.get(f"policy.{name}"),
                "label": label,
                "about": about,
            }
        )
    titles = dict.fromkeys(block.title for block in sample.blocks)
    for question in design.questions:
        titles |= dict.fromkeys(question.shows)
    stage_guidelines = []
    for stage in guidelines.STAGES:
        row, text = _guideline(benchmark, stage)
        stage_guidelines.append((stage, row, request.POST.get(f"guideline.{stage}", text)))
    context = {
        "benchmark": benchmark,
        "current": current,
        "base": base,
        "editor": fields,
        "settings": policy_settings,
        "share": share,
        "hours": hours,
        "hours_default": sample.policy.objection_hours,
        "note": request.POST.get("note", ""),
        "faults": [(*_fault_location(design, fault), fault.sentence) for fault in faults],
        "refused": refused,
        "kinds": CITATION_KINDS.items(),
        "stages": STAGES,
        "per_rubric": bool(sample.form.rubrics),
        "titles": list(titles),
        "guidelines": stage_guidelines,
        "opened_list": opened_list,
        "opened_row": opened_row,
        **_preview(request, benchmark, design),
    }
    return render(request, "review/forms/form_edit.html", context, status=status)


def _guideline(benchmark: str, stage: State) -> tuple[Guideline | None, str]:
    """The guideline of a stage, and its text."""
    row = guidelines.guideline(benchmark, stage)
    if row is None:
        return None, guidelines.built_in(benchmark, stage)
    return row, row.text


def _posted_guidelines(request: HttpRequest, benchmark: str) -> dict[State, tuple[str, int]]:
    """The guidelines whose text was changed, each with the version that was edited."""
    changed = {}
    for stage in guidelines.STAGES:
        text = request.POST.get(f"guideline.{stage}", "").replace("\r\n", "\n").replace("\0", "")
        _row, shown = _guideline(benchmark, stage)
        if text.strip() and text.strip() != shown.replace("\r\n", "\n").strip():
            changed[stage] = text, whole_number(request.POST.get(f"guideline.{stage}.base", ""), 6) or 0
    return changed


def _fault_location(design: Design, fault: FormFault) -> tuple[str, str]:
    """The location of a fault on the page: the anchor and its heading."""
    parts = fault.field.split(".")
    if parts[0] == "question":
        question = design.questions[int(parts[1]) - 1]
        return f"q-{parts[1]}", f"{parts[1]} {editor.title(design, question)}"
    if parts[0] in ("reasons", "dissents"):
        return parts[0], _("Reasons")
    if parts[0] in ("levels", "severity_asks"):
        return "levels", _("Harm scale")
    if parts[0] in ("policy", "share", "objection_hours"):
        return ("policy", _("Policy"))
    return ("questions", _("Questions"))


def _preview(request: HttpRequest, benchmark: str, design: Design) -> dict[str, Any]:
    """The context of the preview: a sample case with this design, as shown at a stage."""
    sample = queries.edited_sample(benchmark)
    posted = request.POST.get("preview-stage", "")
    stage = State.PRIMARY
    if posted in {stage.value for stage in STAGES}:
        stage = State(posted)
    spec = apply_design(design, 0, sample).in_language(get_language() or "")
    preview_stage, form, blocks = str(stage), spec.form.at(stage), spec.blocks
    is_first_look = posted == "first-look"
    if is_first_look:
        preview_stage, form, blocks = posted, spec.form.first_look, spec.first_look
    return {
        "preview_stage": preview_stage,
        "looks_first": bool(sample.first_look),
        "first_look_due": is_first_look,
        "spec": spec,
        "shown": form,
        "sheet": fill_form(form, Answers(), rejected_before=stage == State.SECONDARY),
        "case": {"language": spec.language},
        "blocks": blocks,
        "draft_url": reverse("review:draft", args=[1]),  # for the preview's buttons, which are outside of any form
    }


@requires(Can.OVERSEE, "POST")
def form_preview(request: HttpRequest, benchmark: str) -> HttpResponse:
    """Only the preview, while the form is being edited."""
    _current(benchmark)
    context = _preview(request, benchmark, editor.design_from_post(request.POST))
    return render(request, "review/forms/_preview.html", context)


@requires(Can.OVERSEE, "GET")
def form_compare(request: HttpRequest, benchmark: str) -> HttpResponse:
    """The differences between two versions; 0 is the form in the benchmark's folder."""
    current = _current(benchmark)
    rows = {row.version: row for row in queries.versions(benchmark)}
    newest = 0
    if current:
        newest = current.version

    def selected_version(name: str, default: int) -> int:
        number = whole_number(request.GET.get(name, ""), 6)
        if number is None:
            number = default
        if number in rows:
            return number
        return 0

    before, after = selected_version("from", max(newest - 1, 0)), selected_version("to", newest)
    designs = [queries.design_of(benchmark, rows.get(number)) for number in (before, after)]
    context = {
        "benchmark": benchmark,
        "before": before,
        "after": after,
        "versions": [*rows.values()],
        "changes": queries.changes(*designs),
    }
    return render(request, "review/forms/form_compare.html", context)


@requires(Can.OVERSEE, "POST")
def form_restore(request: HttpRequest, benchmark: str) -> HttpResponse:
    """Publish an earlier version again, as the next version."""
    _current(benchmark)
    version = whole_number(request.POST.get("version", ""), 6)
    base = whole_number(request.POST.get("base", ""), 6)
    if version is None or base is None:
        raise Http404
    if version:
        note = _("Version %(version)d again") % {"version": version}
    else:
        note = _("Built-in form")
    restored = services.restore(signed_in_account(request), benchmark=benchmark, version=version, base=base, note=note)
    return _published(request, restored)
