"""A model under test that gives orders to the judge, in a whole run: over HTTP, through the gateway and the database."""

from pathlib import Path

import pytest

from evaluation.models import Judgment, Run
from review.models import User
from tests.engine import evaluated, frozen


@pytest.mark.django_db
@pytest.mark.parametrize("judging", Run.Judging.values)
def test_a_whole_run_with_an_adversary_is_judged_as_by_a_judge_that_obeys_nobody(
    tmp_path: Path, models: str, physicians: list[User], judging: str
) -> None:
    release = frozen(tmp_path, models, physicians, conversations=4, reports=2)
    found = []
    for judge in ("sim-judge", "sim-judge-obedient"):
        run = evaluated(release, models, "sim-adversary", judge=judge, judging=judging)
        judgments = Judgment.objects.filter(run=run).order_by("rubric_id")
        assert all("criteria_met" in judgment.response.text for judgment in judgments)
        found.append([(judgment.rubric_id, judgment.verdict) for judgment in judgments])
    assert found[0] == found[1]
    verdicts_ = [verdict for _rubric, verdict in found[0]]
    assert set(verdicts_) <= {"met", "not_met"}
    assert verdicts_.count("not_met") > 0.8 * len(verdicts_)
