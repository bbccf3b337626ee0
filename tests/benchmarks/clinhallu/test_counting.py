"""Judge failures are counted by the rule of the preset: on the page, in files, by the bundle's
program."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from evaluation.errors import InvalidPlan
from evaluation.interchange import bundle
from evaluation.interchange.programs import verify_run
from evaluation.models import Judgment, Run
from evaluation.registry import protocol
from evaluation.reports import formats, queries
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from review.models import User
from tests.benchmarks.clinhallu.traced_release import traced_release, vision_models
from tests.engine import endpoint
from tests.populations import population

pytestmark = [pytest.mark.django_db, pytest.mark.both]
SAMPLES = 6
FREE, REP_V = "vqa-rad-free", "vqa-rad-rep-v"


@population
def runs() -> dict[str, Run]:
    """Runs over the same answers, counted by each preset.

    One judgment on knowledge was unreadable and one failed; one on a free answer was unreadable.
    """
    release = traced_release({"vqa-rad": SAMPLES})
    run_of_preset = {}
    with vision_models() as url:
        tested, judge = [endpoint(url, "sim-careful")], endpoint(url, "sim-judge")
        for preset in ("", "released"):
            run = services.launch_run(RunSettings(release=release, endpoints=tested, judge=judge, preset=preset))
            work.work_on_run(run.pk)
            run.refresh_from_db()
            knowledge = list(Judgment.objects.filter(run=run, rubric__key="knowledge").order_by("pk")[:2])
            answer = Judgment.objects.filter(run=run, rubric__key="answer", response__variant="free").order_by("pk")[0]
            failures = zip((*knowledge, answer), ("BrokenReply", "ServerError", "BrokenReply"), strict=True)
            for judgment, error in failures:
                Judgment.objects.filter(pk=judgment.pk).update(status="failed", verdict="", error=error)
            run_of_preset[run.plan["preset"]] = run
    return run_of_preset


def test_each_preset_counts_failures_by_its_rule(
    runs: dict[str, Run], client: Client, adela: User, tmp_path: Path
) -> None:
    rates = {}
    for name, run in runs.items():
        report = queries.report(run)
        rates[name] = {row.dataset: row.rates for row in report.numbers.overall}
        folder = tmp_path / name
        bundle.export_run(run, folder)
        assert verify_run.main([str(folder)]) == 0
    paper, released = rates["paper"], rates["released"]
    assert [len(runs), runs["paper"].plan["metric"], runs["released"].plan["metric"]] == [
        2,
        "accuracy",
        "accuracy_valid",
    ]
    # A stage whose judge failed is left out by the paper and hallucinated in the released code.
    h_paper, h_released = (by_dataset[REP_V]["h_knowledge"] for by_dataset in (paper, released))
    assert (h_paper.denominator, h_paper.excluded) == (SAMPLES - 2, 2)
    assert (h_released.denominator, h_released.excluded) == (SAMPLES, 0)
    assert h_released.numerator == h_paper.numerator + 2
    for by_dataset in (paper, released):
        judged_stages = by_dataset[REP_V]["h_knowledge_judged"]
        assert (judged_stages.denominator, judged_stages.excluded) == (SAMPLES - 2, 2), (
            "a stage without a judgment never counts as judged"
        )
        for accuracy in ("accuracy", "accuracy_valid"):  # the released code leaves such an answer out as well
            assert (by_dataset[FREE][accuracy].denominator, by_dataset[FREE][accuracy].excluded) == (
                SAMPLES - 1,
                1,
            )

    # Each outcome is shown with its rule and the judgments behind it.
    run = runs["released"]
    report = queries.report(run)
    outcomes = {
        (outcome["kind"], outcome["rule"]): (outcome["responses"], outcome["criteria"], outcome["counted"])
        for outcome in formats.as_dict(report)["outcomes"]
        if outcome["dataset"] == REP_V and outcome["kind"] != "judged"
    }
    assert outcomes == {("unparsed", "unread"): (None, 1, 1), ("judge_failed", "unread"): (None, 1, 1)}
    assert formats.as_dict(report)["plan"]["preset"] == "released"
    markdown = formats.as_markdown(report)
    assert "counting rules 'released'; primary metric Accuracy, valid traces only" in markdown
    assert "unparsed: counted as 'failure of the judge'" in markdown
    client.force_login(adela)
    page = client.get(reverse("evaluation:run", args=[run.pk])).content.decode()
    assert "counted as &#x27;failure of the judge&#x27;" in page
    assert "Counting rules: As in the released code" in page
    behind = {"dataset": REP_V, "verdict": "hallucinated,missing,unread"}
    assert queries.judgments(run, **behind).count() == h_released.numerator
    assert queries.judgments(run, dataset=REP_V, verdict="unjudged").count() == 0
    assert queries.judgments(runs["paper"], **behind).count() == h_paper.numerator
    assert queries.judgments(runs["paper"], dataset=REP_V, verdict="unjudged").count() == 2
    assert protocol("clinhallu").judge_verdicts == {"correct", "wrong", "supported", "hallucinated"}, (
        "a judge never decides 'unread'"
    )


def test_the_bundle_program_detects_a_changed_counting_rule(
    runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bundle"
    bundle.export_run(runs["released"], folder)
    run_json = json.loads((folder / "run.json").read_text())
    run_json["plan"]["outcomes"]["judge_failed"] = "excluded"
    (folder / "run.json").write_text(json.dumps(run_json))
    assert verify_run.main([str(folder)]) == 1
    assert f"sim-careful, {REP_V}, h_knowledge: excluded is 1, not 0" in capsys.readouterr().out


def test_an_unknown_preset_or_rule_is_refused() -> None:
    release = traced_release({"vqa-rad": 1})
    tested, judge = [endpoint("http://127.0.0.1:1", "m")], endpoint("http://127.0.0.1:1", "j")
    with pytest.raises(InvalidPlan, match="known: paper, released"):
        services.launch_run(RunSettings(release=release, endpoints=tested, judge=judge, preset="publish"))
    with pytest.raises(InvalidPlan, match="judge_failed=judged"):
        services.launch_run(
            RunSettings(release=release, endpoints=tested, judge=judge, outcomes=["judge_failed=judged"])
        )
    with pytest.raises(CommandError, match="known: paper, released"):
        call_command(
            "evaluate", "--release", "traced", "--endpoint", "m", "--judge", "j", "--preset", "publish", "--yes"
        )
    run = services.launch_run(
        RunSettings(release=release, endpoints=tested, judge=judge, preset="released", outcomes=["unparsed=excluded"])
    )
    assert (run.plan["outcomes"]["unparsed"], run.plan["outcomes"]["judge_failed"]) == ("excluded", "unread")
