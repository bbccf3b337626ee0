"""The search of the whole site shows each reader what they may see."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.review.pages import text_of
from tests.site.test_permissions import signed_in, world
from tests.site.world import World

__all__ = ["world"]


def found(client: Client, text: str) -> str:
    return text_of(client.get(reverse("search"), {"q": text}))


@pytest.mark.django_db
def test_an_admin_finds_cases_samples_people_and_runs(world: World) -> None:
    admin = signed_in(world, "adela")
    case = world.held["first-look"]
    for text in (str(case.case.pk), case.case.title, case.case.lineage):
        assert reverse("review:history", args=[case.case.pk]) in found(admin, text)
    key = world.released_key
    assert f">{key}</a>" in found(admin, key)
    assert reverse("review:person", args=[world["gita"].pk]) in found(admin, "gita")
    assert reverse("evaluation:run", args=[world.run_id]) in found(admin, str(world.run_id))
    assert "Nothing matches." in found(admin, "no such thing")


@pytest.mark.django_db
def test_a_researcher_finds_results_and_nothing_of_the_review(world: World) -> None:
    researcher = signed_in(world, "rui")
    page = found(researcher, "gita") + found(researcher, world.held["first-look"].case.title)
    assert "/review/" not in page.partition("<main")[2].partition("</main>")[0]
    assert reverse("evaluation:run", args=[world.run_id]) in found(researcher, str(world.run_id))
    assert f"/samples/{world.released_key}/" in found(researcher, world.released_key)


@pytest.mark.django_db
def test_a_physician_has_no_search(world: World) -> None:
    physician = signed_in(world, "ana")
    assert physician.get(reverse("search"), {"q": "a"}).status_code == 403
    assert reverse("search") not in text_of(physician.get(reverse("review:workbench")))
