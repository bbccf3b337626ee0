"""Controls in other words: what is refused, what becomes a sample, and that no rate counts them."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from evaluation.claims.claims import REWORDED, TRAP
from evaluation.claims.queries import claims_of_run
from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.reports import formats, queries
from evaluation.runs.verdicts import run_frame, twin_frame
from generation.batches.kind import BATCHES
from generation.batches.launch import BatchSettings, launch_batch
from generation.batches.services import work_on_batch
from generation.llm.errors import BrokenReply
from generation.models import Batch, Sample, SampleVersion
from generation.outcomes import services as outcomes_services
from generation.recipes.recipe import Draft
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from mhb_site.benchmarks.mhb import examiner, review, rewording
from review.models import User
from tests.benchmarks.mhb.helpers import ScriptedModels, report_draft
from tests.engine import endpoint, evaluate_release, import_file, models, no_long_waits, reports_file
from tests.review.approve import approve_everything

__all__ = ["models", "no_long_waits"]

QUESTION = "Which vessel was treated on day 4, and how?"
CONTROL = {"question": QUESTION, "answer": "The artery was opened.", "where": "The artery was opened."}


def draft(**data: object) -> Draft:
    settings = {"controls": True, "rewordings": True, "rewordings_reviewed": 0.0}
    content = {"task": "report", "report": "The artery was opened on day 4.", "question": "Why?"}
    return report_draft(
        settings=settings, checks=("answerable",), data={"content": content, "control": CONTROL, **data}
    )


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("On day 4, what vessel was treated, and in which way?", ""),
        ("On day 5, what vessel was treated, and in which way?", "the same numbers"),
        ("Day 4?" + " It is about the vessel." * 5, "about the same length"),
        (QUESTION.upper(), "No text is reworded"),
    ],
)
def test_a_rewording_keeps_numbers_and_length(text: str, refused: str) -> None:
    models = ScriptedModels(json.dumps({"texts": [text]}))
    if refused:
        with pytest.raises(BrokenReply) as caught:
            asyncio.run(rewording.ask_rewording(draft(), models))
        assert refused in str(caught.value.detail)
        return
    [asked] = asyncio.run(rewording.ask_rewording(draft(), models))
    assert asked.data["reworded"] == [text]


def test_only_what_another_model_finds_the_same_becomes_a_sample() -> None:
    same, more = {"added": "", "removed": ""}, {"added": "the left one", "removed": ""}
    made = rewording.reworded(draft(reworded=["On day 4, which vessel?"], sameness=same))
    assert made is not None
    assert (made.content["question"], made.content["source_question"]) == ("On day 4, which vessel?", QUESTION)
    assert made.content["control"]
    assert rewording.reworded(draft(reworded=["On day 4, which left vessel?"], sameness=more)) is None
    assert rewording.reworded(draft()) is None
    unreviewed = review.case(made, "mhb-report-000001", 1)
    assert unreviewed.policy.primary


def test_the_generator_never_checks_its_own_rewording() -> None:
    assert rewording.verifier(draft()) == "checker"
    none = report_draft(settings={"controls": True, "rewordings": True}, checks=())
    assert rewording.verifier(none) == ""
    assert not rewording.makes_rewording(none)
    of_examiner = report_draft(settings={"controls": True, "rewordings": True}, checks=(examiner.PLAIN,))
    assert rewording.verifier(of_examiner) == examiner.ROLE


@pytest.mark.django_db
@pytest.mark.both
def test_reworded_controls_are_samples_that_only_their_claim_counts(
    tmp_path: Path, models: str, physicians: Sequence[User]
) -> None:
    source = import_file(reports_file(tmp_path / "own.json", 12), "own-reports", "pmc-patients")
    roles = {"generator": endpoint(models), "checker": endpoint(models, "sim-examiner")}
    settings = BatchSettings(benchmark="mhb", source=source, roles=roles, preset="twins", checks=("answerable",))
    batch = launch_batch(settings)
    # A worker tries each model once before it begins: the control to reword does not exist then.
    assert [trial.role for trial in BATCHES.trials(batch)] == ["generator"]
    work_on_batch(batch.pk)
    assert Batch.objects.get(pk=batch.pk).status == Batch.Status.FINISHED
    arms = list(Sample.objects.filter(batch=batch).values_list("arm", flat=True))
    assert {arm: arms.count(arm) for arm in set(arms)} == {"trap": 12, "control": 12, "reworded": 12}
    reviewed = [version.provenance["review"] for version in SampleVersion.objects.filter(sample__arm="reworded")]
    assert 1 <= reviewed.count("sampled") <= 4
    approve_everything(physicians)
    outcomes_services.apply_outcomes()
    chosen = Composition(with_controls=True, with_unreviewed=True)
    release = releases_services.freeze_release("twins", benchmark="mhb", composition=chosen)
    assert release.samples_count == 36
    run = evaluate_release(release, models, "sim-careful", "sim-average")
    frame, twins = run_frame(run), twin_frame(run)
    assert twins is not None
    assert (frame.units.height, twins.units.height) == (24, 24)
    assert twins.units["is_control"].sum() == 12
    report = queries.report(run)
    assert report.numbers.samples == (24, 24)
    named = {claim.name: claim for claim in claims_of_run(run).claims}
    reworded = named[REWORDED]
    assert named[TRAP].value is not None
    assert reworded.value == pytest.approx(0.0, abs=0.15)  # the simulated models read either wording alike
    assert json.dumps(formats.as_dict(report), default=str)
    bundle.export_run(run, tmp_path / "bundle")
    assert verify_run.check(tmp_path / "bundle")["faults"] == []
