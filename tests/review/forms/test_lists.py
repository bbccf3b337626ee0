"""The reasons and the harm scale of a review form: edited in versions, and used by reviews."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import QueryDict
from django.utils import translation

from review.answers.answer_form import fill_form
from review.forms import editor, queries
from review.forms import services as forms_services
from review.forms.design import Design, apply_design, case_questions, design_from_json, design_to_json
from review.models import Case, ReviewForm, User
from review.quality.reliability import agreement_table
from review.rules.blocks import Level
from review.rules.case_spec import CaseSpec, spec_from_json, spec_to_json
from review.rules.consolidation import is_reducible, median_level, rejection_reasons
from review.rules.questions import Answers, Reason
from tests.review.forms.test_forms import answer, default, open_sample, sample
from tests.review.forms.test_pages import EDIT, typed
from tests.review.pages import Browse

__all__ = ["default", "sample"]  # fixtures
pytestmark = pytest.mark.django_db

LONG = Reason("too-long", "Too long", reducible=True)


def reword(design: Design, severity_asks: str = "") -> Design:
    """The design with its mildest level reworded and its first reason replaced by LONG."""
    levels = design.levels or ()
    words = replace(levels[0], label="No harm at all", about="Nothing happens.")
    translations = {"reasons:too-long.label": "太长", f"levels:{words.value}.label": "毫无伤害"}
    return replace(
        design,
        reasons=(LONG, *(design.reasons or ())[1:]),
        levels=(words, *levels[1:]),
        wordings={"zh-hans": {**design.wordings["zh-hans"], **translations}},
        severity_asks=severity_asks,
    )


def test_a_case_keeps_the_wording_it_was_opened_with(default: Design, sample: CaseSpec, adela: User) -> None:
    before = open_sample(sample)
    forms_services.publish(adela, benchmark="mhb", design=reword(default, severity_asks="How bad would it be?"))
    case = open_sample(sample, 2)
    asked = case_questions(sample.form.questions, sample.form)  # of each trap what is asked of traps
    assert Case.objects.get(pk=before.pk).frozen.form == replace(sample.form, questions=asked)
    form = spec_from_json(spec_to_json(case.frozen)).form
    assert form.reasons[0] == LONG
    assert [reason.code for reason in form.reasons[1:]] == [reason.code for reason in sample.form.reasons[1:]]
    assert form.severities[0] == Level("none", "No harm at all", "Nothing happens.")
    assert form.severity_asks == "How bad would it be?"
    filled = fill_form(form, Answers()).harms[0]
    assert (filled.choice.options[0].about, filled.by_ahrq) == ("Nothing happens.", False)
    assert fill_form(sample.form, Answers()).harms[0].by_ahrq
    words = case.frozen.in_language("zh-hans").form
    assert (words.reasons[0].label, words.severities[0].label) == ("太长", "毫无伤害")
    assert median_level(form, ["none", "severe", "death"]) == "severe"
    rejected = Answers(verdict="reject", reason_code="too-long", reason="Cut it.")
    assert rejection_reasons(form, rejected) == ["Too long: Cut it."]
    assert is_reducible(form, [rejected])


def test_an_older_version_without_lists_uses_those_of_the_folder(
    default: Design, sample: CaseSpec, adela: User
) -> None:
    stored = design_to_json(default)
    for part in ("reasons", "dissents", "levels", "severity_asks"):
        del stored[part]
    older = design_from_json(stored)
    assert apply_design(older, 1, sample).form.reasons == sample.form.reasons
    assert apply_design(older, 1, sample).form.severities == sample.form.severities
    row = forms_services.publish(adela, benchmark="mhb", design=replace(older, wordings={}))
    design = queries.design_of("mhb", row)
    assert (design.reasons, design.dissents, design.levels) == (default.reasons, default.dissents, default.levels)
    assert design.wordings["zh-hans"]["levels:mild.label"] == "轻度"


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"reasons": ()}, "reasons", "at least one"),
        ({"reasons": (LONG, LONG)}, "reasons.2", "has this value"),
        ({"reasons": (replace(LONG, code="Too long"),)}, "reasons.1", "short value"),
        ({"dissents": (replace(LONG, label=" "),)}, "dissents.1", "Enter the wording"),
        ({"reasons": tuple(replace(LONG, code=f"r{n}") for n in range(21))}, "reasons", "at most 20"),
        ({"levels": ()}, "levels", "cannot change"),
        ({"levels": (Level("mild", "Mild"),)}, "levels", "cannot change"),
        ({"severity_asks": "x" * 400}, "severity_asks", "at most"),
    ],
)
def test_every_fault_in_a_list_is_reported_with_its_field(
    default: Design, changes: dict[str, Any], field: str, message: str
) -> None:
    faults = forms_services.faults("mhb", replace(default, **changes))
    assert any(fault.field == field and message in fault.sentence for fault in faults), faults


def test_a_form_without_revisions_gets_no_reducible_reasons(default: Design, sample: CaseSpec) -> None:
    medhal = queries.default_design("medhal")
    faults = forms_services.faults("medhal", replace(medhal, reasons=(LONG,)))
    assert [fault.field for fault in faults] == ["reasons.1"]
    others = replace(
        sample, form=replace(sample.form, reasons=tuple(replace(r, reducible=False) for r in sample.form.reasons))
    )
    form = apply_design(reword(default), 1, others).form
    assert not any(reason.reducible for reason in form.reasons)
    assert all(choice.ends for question in form.questions for choice in question.choices if choice.blocks)


def test_a_control_keeps_the_questions_of_the_folder(default: Design, sample: CaseSpec, adela: User) -> None:
    forms_services.publish(adela, benchmark="mhb", design=reword(default))
    control = replace(sample.form, questions=(replace(sample.form.questions[0], key="answerable"),), reasons=())
    case = open_sample(sample, form=control, first_look=())
    assert (case.frozen.form, case.frozen.form_version) == (control, 1)


def test_agreement_compares_levels_by_value(
    default: Design, sample: CaseSpec, adela: User, ana: User, bo: User
) -> None:
    case = open_sample(sample)
    answer(ana)
    answer(bo)
    forms_services.publish(adela, benchmark="mhb", design=reword(default))
    open_sample(sample, 2)
    lines = {line.key: line.agreement for line in agreement_table(benchmark="mhb").lines}
    assert lines["severity"].raw.value == 1
    assert case.frozen.form_version == 0


def test_the_editor_changes_lists_and_publishes_them(browse: Browse, adela: User) -> None:
    client = browse(adela)
    first = typed(client.get(EDIT).content.decode())
    assert first["reasons.1.code"] == ["wording"]
    assert first["levels.2.about.zh-hans"][0]
    longer = client.post(EDIT, first | {"do": "add.reasons"}).content.decode()
    posted = typed(longer)
    assert posted["reasons.9.code"] == ["reason-1"]
    moved = typed(client.post(EDIT, posted | {"do": "up.reasons.9"}).content.decode())
    assert moved["reasons.8.code"] == ["reason-1"]
    shorter = typed(client.post(EDIT, moved | {"do": "remove.reasons.1"}).content.decode())
    assert shorter["reasons.1.code"] == ["context"]
    wrong = client.post(EDIT, shorter | {"do": "publish"})
    assert wrong.status_code == 422
    assert 'href="#reasons"' in wrong.content.decode()
    edits = {"reasons.7.label": "<b>Too long</b>", "levels.1.label": "Nothing", "do": "publish"}
    assert client.post(EDIT, shorter | edits).status_code == 302
    design = queries.design_of("mhb", ReviewForm.objects.get())
    assert [reason.code for reason in design.reasons or ()][6] == "reason-1"
    page = client.post(f"{EDIT}preview/", shorter | edits).content.decode()
    assert "&lt;b&gt;Too long" in page
    compared = client.get(f"{EDIT}compare/").content.decode()
    assert "reasons.reason-1" in compared


def test_invalid_list_buttons_change_nothing(default: Design) -> None:
    for do in ("add.levels", "up.reasons.0", "remove.reasons.999", "down.dissents.5", "add."):
        assert editor.apply_button(default, do) == default
    data = QueryDict(urlencode({"reasons.9999.code": "x", "reasons.x.code": "y", "do": "up.reasons.1"}))
    assert editor.design_from_post(data).reasons == ()
    with translation.override("zh-hans"):
        assert editor.Editor(default, {}).levels[1].texts["label"].others[0][2] == "轻度"
