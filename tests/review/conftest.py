"""Fixtures for the tests of review."""

import pytest
from django.test import Client

from review.models import User
from tests.review.pages import Open


@pytest.fixture
def browse() -> Open:
    """A client that is signed in as somebody."""

    def signed_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return signed_in
