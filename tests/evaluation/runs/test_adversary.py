"""A model under test that gives orders to the judge, in a whole run over HTTP."""

from pathlib import Path

import pytest

from evaluation.models import Judgment, Run
from review.models import User
from tests.engine import evaluate_release, make_release


@pytest.mark.django_db
@pytest.mark.parametrize("judging", Run.Judging.values)
def test_orders_of_an_adversary_change_no_verdict_of_a_run(
    tmp_path: Path, models: str, physicians: list[User], judging: str
) -> None:
    release = make_release(tmp_path, models, physicians, conversations=4, reports=2)
    by_judge = []
    for judge in ("sim-judge", "sim-judge-obedient"):
        run = evaluate_release(release, models, "sim-adversary", judge=judge, judging=judging)
        judgments = Judgment.objects.filter(run=run).order_by("rubric_id")
        assert all("criteria_met" in judgment.response.text for judgment in judgments)
        by_judge.append([(judgment.rubric_id, judgment.verdict) for judgment in judgments])
    assert by_judge[0] == by_judge[1]
    verdicts = [verdict for _rubric, verdict in by_judge[0]]
    assert set(verdicts) <= {"met", "not_met"}
    assert verdicts.count("not_met") > 0.8 * len(verdicts)
