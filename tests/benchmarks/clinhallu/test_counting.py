"""Failures of a judge are counted by the rule that the preset names: on the page, in files, by the bundle's program."""

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
from tests.benchmarks.clinhallu.traced_release import seers, traced_release
from tests.engine import endpoint
from tests.populations import population

pytestmark = [pytest.mark.django_db, pytest.mark.both]
SAMPLES = 6
FREE, REP_V = "vqa-rad-free", "vqa-rad-rep-v"


@population
def runs() -> dict[str, Run]:
    """The same answers counted in both ways. Of the judgments on knowledge one was unreadable and one failed; so was one on a
    free answer."""
    release = traced_release({"vqa-rad": SAMPLES})
    found = {}
    with seers() as url:
        tested, judge = [endpoint(url, "sim-careful")], endpoint(url, "sim-judge")
        for preset in ("", "released"):
            run = services.launch_run(RunSettings(release, tested, judge, preset=preset))
            work.work_on_run(run.pk)
            run.refresh_from_db()
            knowledge = list(Judgment.objects.filter(run=run, rubric__key="knowledge").order_by("pk")[:2])
            answer = Judgment.objects.filter(run=run, rubric__key="answer", response__variant="free").order_by("pk")[0]
            failures = zip((*knowledge, answer), ("BrokenReply", "ServerError", "BrokenReply"), strict=True)
            for judgment, error in failures:
                Judgment.objects.filter(pk=judgment.pk).update(status="failed", verdict="", error=error)
            found[run.plan["preset"]] = run
    return found


def test_each_preset_counts_failures_by_its_rule(
    runs: dict[str, Run], client: Client, adela: User, tmp_path: Path
) -> None:
    rates = {}
    for name, run in runs.items():
        report = queries.report(run)
        rates[name] = {row.dataset: row.rates for row in report.overall}
        folder = tmp_path / name
        bundle.export_run(run, folder)
        assert verify_run.main([str(folder)]) == 0
    paper, released = rates["paper"], rates["released"]
    assert [len(runs), runs["paper"].plan["metric"], runs["released"].plan["metric"]] == [
        2,
        "accuracy",
        "accuracy_valid",
    ]
    # A stage whose judge failed: left out, or hallucinated.
    h_paper, h_released = (found[REP_V]["h_knowledge"] for found in (paper, released))
    assert (h_paper.denominator, h_paper.excluded) == (SAMPLES - 2, 2)
    assert (h_released.denominator, h_released.excluded) == (SAMPLES, 0)
    assert h_released.numerator == h_paper.numerator + 2
    for found in (paper, released):
        judged = found[REP_V]["h_knowledge_judged"]
        assert (judged.denominator, judged.excluded) == (SAMPLES - 2, 2), "what was not judged is never a judged stage"
        for accuracy in ("accuracy", "accuracy_valid"):  # the released code leaves such an answer out as well
            assert (found[FREE][accuracy].denominator, found[FREE][accuracy].excluded) == (SAMPLES - 1, 1)

    # Each is shown, with its rule and the judgments behind it.
    run = runs["released"]
    report = queries.report(run)
    told = {
        (each["kind"], each["rule"]): (each["responses"], each["criteria"], each["counted"])
        for each in formats.as_dict(report)["outcomes"]
        if each["dataset"] == REP_V and each["kind"] != "judged"
    }
    assert told == {("unparsed", "unread"): (None, 1, 1), ("judge_failed", "unread"): (None, 1, 1)}
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
        "nobody decides 'unread'"
    )


def test_a_wrong_count_is_found_out(runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "bundle"
    bundle.export_run(runs["released"], folder)
    about = json.loads((folder / "run.json").read_text())
    about["plan"]["outcomes"]["judge_failed"] = "excluded"
    (folder / "run.json").write_text(json.dumps(about))
    assert verify_run.main([str(folder)]) == 1
    assert f"sim-careful, {REP_V}, h_knowledge: excluded is 1, not 0" in capsys.readouterr().out


def test_a_rule_and_a_preset_must_exist() -> None:
    release = traced_release({"vqa-rad": 1})
    tested, judge = [endpoint("http://127.0.0.1:1", "m")], endpoint("http://127.0.0.1:1", "j")
    with pytest.raises(InvalidPlan, match="known: paper, released"):
        services.launch_run(RunSettings(release, tested, judge, preset="publish"))
    with pytest.raises(InvalidPlan, match="judge_failed=judged"):
        services.launch_run(RunSettings(release, tested, judge, outcomes=["judge_failed=judged"]))
    with pytest.raises(CommandError, match="known: paper, released"):
        call_command(
            "evaluate", "--release", "traced", "--endpoint", "m", "--judge", "j", "--preset", "publish", "--yes"
        )
    run = services.launch_run(RunSettings(release, tested, judge, preset="released", outcomes=["unparsed=excluded"]))
    assert (run.plan["outcomes"]["unparsed"], run.plan["outcomes"]["judge_failed"]) == ("excluded", "unread")
