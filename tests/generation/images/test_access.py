"""Images on pages and in the API: for those who may see a case that shows them, with the right type, and for nobody else."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.images import services
from generation.models import StoredImage
from review.models import User
from review.rules.blocks import Images, Picture, Text
from review.rules.permissions import UserRole
from review.rules.questions import Choice, Form, Question
from tests.generation.images.drawn import picture
from tests.review import factories
from tests.review.factories import account, take

pytestmark = pytest.mark.django_db


@pytest.fixture
def kept(settings: Any, tmp_path: Path) -> StoredImage:
    settings.MHB_IMAGES = tmp_path
    return services.store_image(picture(size=(900, 600)))


@pytest.fixture
def physician() -> User:
    return account("ana", UserRole.PHYSICIAN)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def opened(*kept: StoredImage) -> Any:
    pictures = tuple(Picture(image.sha256, "Is there <fluid>?") for image in kept)
    question = Question("q", "Right?", "", (Choice("yes", "Yes"), Choice("no", "No", blocks=True)))
    blocks = (Images("Images", pictures), Text("Question", "Is there fluid?"))
    return factories.opened(blocks=blocks, form=Form((question,)))


def test_who_oversees_makes_or_measures_sees_every_image_and_physicians_none_of_others(
    kept: StoredImage, physician: User
) -> None:
    opened(kept)
    for role, status in ((UserRole.ADMIN, 200), (UserRole.RESEARCHER, 200)):
        assert client_of(account(role, role)).get(f"/generation/images/{kept.sha256}/").status_code == status
    for address in (f"/generation/images/{kept.sha256}/", f"/api/v1/images/{kept.sha256}/"):
        assert client_of(physician).get(address).status_code == 404
    assert Client().get(f"/generation/images/{kept.sha256}/").status_code == 302
    assert Client().get(f"/api/v1/images/{kept.sha256}/").status_code == 401


def test_a_physicians_case_opens_its_image_and_no_other(kept: StoredImage, physician: User) -> None:
    other = services.store_image(picture(shade=3))
    opened(kept)
    take(physician)
    client = client_of(physician)
    for address in (f"/generation/images/{kept.sha256}/", f"/api/v1/images/{kept.sha256}/"):
        assert client.get(address).status_code == 200
    assert client.get(f"/generation/images/{other.sha256}/").status_code == 404
    assert client_of(account("ben", UserRole.PHYSICIAN)).get(f"/generation/images/{kept.sha256}/").status_code == 404


def test_the_page_shows_them_without_script_and_its_addresses_are_the_readers_own(
    kept: StoredImage, physician: User
) -> None:
    opened(kept, services.store_image(picture(shade=3)))
    held = take(physician)
    page = client_of(physician).get(reverse("review:case", args=[held.pk])).content.decode()
    addresses = re.findall(r'<img class="viewer__picture" src="([^"]+)" alt="([^"]+)"', page)
    assert len(addresses) == 2
    assert "Is there &lt;fluid&gt;?" in addresses[0][1]
    assert f'<a href="{addresses[0][0]}"' in page
    signed = addresses[0][0].replace("&amp;", "&")
    assert "?seen=" in signed
    ben = account("ben", UserRole.PHYSICIAN)
    assert client_of(physician).get(signed).status_code == 200
    assert client_of(ben).get(signed).status_code == 404


def test_it_comes_with_its_type_and_is_kept_by_the_reader(kept: StoredImage) -> None:
    client = client_of(account("ada", UserRole.ADMIN))
    answer = client.get(f"/generation/images/{kept.sha256}/")
    assert (answer["Content-Type"], answer["X-Content-Type-Options"]) == ("image/png", "nosniff")
    assert answer["Cache-Control"] == "private, no-cache"
    again = client.get(f"/generation/images/{kept.sha256}/", headers={"if-none-match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    small = client.get(f"/generation/images/{kept.sha256}/?size=thumbnail")
    assert small["Content-Type"] == "image/jpeg"
    assert small["ETag"] != answer["ETag"]


@pytest.mark.parametrize("name", ["0" * 64, "nonsense", "..%2F..%2Fetc%2Fpasswd"])
def test_what_is_not_there_is_not_found(kept: StoredImage, name: str) -> None:
    assert client_of(account("ada", UserRole.ADMIN)).get(f"/generation/images/{name}/").status_code == 404
