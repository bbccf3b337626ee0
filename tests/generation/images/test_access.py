"""Images on pages and in the API: only for users who may see a case that shows them."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.models import StoredImage
from review.models import User
from review.rules.blocks import Images, Picture, Text
from review.rules.permissions import UserRole
from review.rules.questions import Choice, Form, Question
from tests.generation.images.drawing import picture, store_image
from tests.review import factories
from tests.review.factories import account, claim

pytestmark = pytest.mark.django_db


@pytest.fixture
def image(settings: Any, tmp_path: Path) -> StoredImage:
    settings.MHB_IMAGES = tmp_path
    return store_image(picture(size=(900, 600)))


@pytest.fixture
def physician() -> User:
    return account("ana", UserRole.PHYSICIAN)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def open_case(*images: StoredImage) -> Any:
    pictures = tuple(Picture(image.sha256, "Is there <fluid>?") for image in images)
    question = Question("q", "Right?", "", (Choice("yes", "Yes"), Choice("no", "No", blocks=True)))
    blocks = (Images("Images", pictures), Text("Question", "Is there fluid?"))
    return factories.open_case(blocks=blocks, form=Form((question,)))


def test_admins_and_researchers_see_every_image_and_physicians_none_without_a_case(
    image: StoredImage, physician: User
) -> None:
    open_case(image)
    for role, status in ((UserRole.ADMIN, 200), (UserRole.RESEARCHER, 200)):
        assert client_of(account(role, role)).get(f"/generation/images/{image.sha256}/").status_code == status
    for address in (f"/generation/images/{image.sha256}/", f"/api/v1/images/{image.sha256}/"):
        assert client_of(physician).get(address).status_code == 404
    assert Client().get(f"/generation/images/{image.sha256}/").status_code == 302
    assert Client().get(f"/api/v1/images/{image.sha256}/").status_code == 401


def test_a_physicians_case_opens_its_image_and_no_other(image: StoredImage, physician: User) -> None:
    other = store_image(picture(shade=3))
    open_case(image)
    claim(physician)
    client = client_of(physician)
    for address in (f"/generation/images/{image.sha256}/", f"/api/v1/images/{image.sha256}/"):
        assert client.get(address).status_code == 200
    assert client.get(f"/generation/images/{other.sha256}/").status_code == 404
    assert client_of(account("ben", UserRole.PHYSICIAN)).get(f"/generation/images/{image.sha256}/").status_code == 404


def test_the_page_shows_images_without_script_at_addresses_for_this_reader_only(
    image: StoredImage, physician: User
) -> None:
    open_case(image, store_image(picture(shade=3)))
    assignment = claim(physician)
    page = client_of(physician).get(reverse("review:case", args=[assignment.pk])).content.decode()
    addresses = re.findall(r'<img class="viewer__picture" src="([^"]+)" alt="([^"]+)"', page)
    assert len(addresses) == 2
    assert "Is there &lt;fluid&gt;?" in addresses[0][1]
    assert f'<a href="{addresses[0][0]}"' in page
    signed = addresses[0][0].replace("&amp;", "&")
    assert "?seen=" in signed
    ben = account("ben", UserRole.PHYSICIAN)
    assert client_of(physician).get(signed).status_code == 200
    assert client_of(ben).get(signed).status_code == 404


def test_an_image_has_its_media_type_and_is_cached_by_the_browser(image: StoredImage) -> None:
    client = client_of(account("ada", UserRole.ADMIN))
    answer = client.get(f"/generation/images/{image.sha256}/")
    assert (answer["Content-Type"], answer["X-Content-Type-Options"]) == ("image/png", "nosniff")
    assert answer["Cache-Control"] == "private, no-cache"
    again = client.get(f"/generation/images/{image.sha256}/", headers={"if-none-match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    small = client.get(f"/generation/images/{image.sha256}/?size=thumbnail")
    assert small["Content-Type"] == "image/jpeg"
    assert small["ETag"] != answer["ETag"]


@pytest.mark.parametrize("name", ["0" * 64, "nonsense", "..%2F..%2Fetc%2Fpasswd"])
def test_an_unknown_image_is_not_found(image: StoredImage, name: str) -> None:
    assert client_of(account("ada", UserRole.ADMIN)).get(f"/generation/images/{name}/").status_code == 404
