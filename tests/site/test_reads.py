"""A person who reads a review of an open case in another role is recorded, and cannot review it."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from generation.models import SampleVersion
from review.models import Assignment, Case, PersonEvent
from review.rules.permissions import UserRole
from review.rules.questions import Answers, Form
from tests.api import test_permissions as api
from tests.populations import population
from tests.review.approve import rejection_of
from tests.review.factories import account
from tests.site.routes import address, is_django_admin, routes
from tests.site.test_held_out import content_of
from tests.site.world import World

WORD = "xyzzy-of-the-second-reviewer"


class ReadWorld(World):
    """A world whose pages are about Jon and a case that he reviewed with a word of his own."""

    def submit(self, name: str, case: Case, *answers: Callable[[Form], Answers]) -> Assignment:
        if name == "jon":
            answers = (lambda form: rejection_of(form, WORD),)
        return super().submit(name, case, *answers)


@population
def world() -> World:
    world = ReadWorld()
    world.waiting = world.held["confirmation"].case
    world.sample_id = SampleVersion.objects.get(case=world.waiting).sample_id
    world.people["ana"] = world["jon"]
    return world


def addresses(world: World) -> list[str]:
    pages = [address(route, world) for route in routes() if not is_django_admin(route) and "logout" not in route]
    for name, route in api.routes().items():
        values = {"name": "own", "version": 1, "benchmark": "mhb", "sha256": world.image, "stage": "primary"}
        if (name, "GET") in api.EXPECTED:
            place = "cases" if "case" in name else "samples" if "sample" in name else ""
            pk = {"cases": world.waiting.pk, "samples": world.sample_id}.get(place, world["ana"].pk)
            arguments = {key: values.get(key, pk) for key in route.pattern.converters}
            pages.append(reverse(f"api:{name}", kwargs=arguments))
    return pages


@pytest.mark.parametrize("role", [UserRole.ADMIN, UserRole.AUDITOR])
def test_every_page_that_shows_a_review_of_an_open_case_records_who_read_it(world: World, role: UserRole) -> None:
    read, unrecorded = set(), set()
    for number, page in enumerate(addresses(world)):
        reader = account(f"reader-{number}", role)
        client = Client(raise_request_exception=False)
        client.force_login(reader)
        if WORD.encode() in content_of(client.get(page)):
            read.add(page)
            looks = PersonEvent.objects.filter(kind=PersonEvent.Kind.READ, actor=reader)
            if world.waiting.pk not in [look.data["case"] for look in looks]:
                unrecorded.add(page)
    assert f"/review/cases/{world.waiting.pk}/" in read
    assert unrecorded == set()
