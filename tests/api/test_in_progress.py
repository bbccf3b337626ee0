"""API, pages and shell answer for batches, runs and imports in every state, also at work."""

from typing import Any

import pytest
from django.urls import reverse

from generation.models import Batch
from review.models import User
from tests.api.conftest import Api
from tests.engine import Manage, bare_release
from tests.engine import manage as manage
from tests.in_progress import JOB_STATES, InProgress

ENDED = ("failed", "finished", "cancelled")


@pytest.fixture
def progress(adela: User) -> InProgress:
    return InProgress(adela, bare_release(*[("dialogue", [["A1"], ["C1"]])] * 2))


@pytest.mark.parametrize("kind", ["batch", "run"])
def test_a_poll_over_the_api_answers_in_every_state(api: Api, progress: InProgress, adela: User, kind: str) -> None:
    client, jobs = api(adela), progress.batches if kind == "batch" else progress.runs
    live_status = {}
    for state in JOB_STATES:
        answer = client.get(reverse(f"api:{kind}", args=[jobs[state]]))
        assert answer.status_code == 200, (state, answer.content)
        live_status[state] = answer.json()["live"]
        assert client.get(reverse(f"api:{kind}-failures", args=[jobs[state]])).status_code == 200, state
    # Two of three drafts (three of four responses) are open; a row took five lines, at 2.5 a
    # minute.
    expected = 2 * 5 / 2.5 * 60 if kind == "batch" else 3 * 5 / 2.5 * 60
    if kind == "run":
        assert live_status["running"]["seconds_left"] > 0
    else:
        assert live_status["running"]["seconds_left"] == pytest.approx(expected, rel=0.05)
    assert live_status["running"]["rate"] == pytest.approx(2, rel=0.05)
    assert {live_status[state]["seconds_left"] for state in ("paused", "spent", *ENDED)} == {None}


@pytest.mark.parametrize("kind", ["batch", "run"])
def test_a_job_can_be_changed_over_the_api_while_it_works(
    api: Api, progress: InProgress, adela: User, kind: str
) -> None:
    client, jobs = api(adela), progress.batches if kind == "batch" else progress.runs
    budget = client.post(reverse(f"api:{kind}-budget", args=[jobs["running"]]), {"budget_calls": 100})
    assert budget.status_code == 202, budget.content
    assert budget.json()["live"]["seconds_left"] > 0
    for state in JOB_STATES:
        for verb in ("pause", "resume", "retry", "cancel"):
            answer = client.post(reverse(f"api:{kind}-{verb}", args=[jobs[state]]))
            assert answer.status_code in (200, 202, 409), (state, verb, answer.content)


@pytest.mark.parametrize(("app", "kind"), [("generation", "batch"), ("evaluation", "run")])
def test_a_poll_of_the_page_answers_in_every_state(
    client: Any, progress: InProgress, adela: User, app: str, kind: str
) -> None:
    client.force_login(adela)
    jobs = progress.batches if kind == "batch" else progress.runs
    for state in JOB_STATES:
        for page in (kind, f"{kind}-progress", f"{kind}-failures"):
            answer = client.get(reverse(f"{app}:{page}", args=[jobs[state]]))
            assert answer.status_code == 200, (state, page)
    text = client.get(reverse(f"{app}:{kind}-progress", args=[jobs["running"]])).content.decode()
    assert "min" in text


@pytest.mark.parametrize("kind", ["batch", "run"])
def test_the_shell_answers_in_every_state(manage: Manage, progress: InProgress, kind: str) -> None:
    jobs = progress.batches if kind == "batch" else progress.runs
    budget = manage.json("control_job", "budget", f"{kind}:{jobs['running']}", "--budget-calls", "100")
    assert (budget["status"], budget["calls"], budget["budget_calls"]) == ("running", 4, 100)
    for state in JOB_STATES:
        code, _out, err = manage("control_job", "resume", f"{kind}:{jobs[state]}", "--json")
        assert code == int(state in (*ENDED, "spent")), (state, err)
        assert "Traceback" not in err
        if kind == "run":
            assert manage.json("report", jobs[state])


def test_imports_are_polled_in_every_state(api: Api, client: Any, progress: InProgress, adela: User) -> None:
    admin = api(adela)
    for status, pk in progress.imports.items():
        assert admin.get(reverse("api:import", args=[pk])).json()["status"] == status
    client.force_login(adela)
    source = Batch.objects.get(pk=progress.batches["running"]).source.name
    for page in ("source", "source-imports"):
        assert client.get(reverse(f"generation:{page}", args=[source])).status_code == 200
