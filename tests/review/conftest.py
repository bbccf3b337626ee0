"""Fixtures for the tests of review."""

import pytest
from django.test import Client

from review.models import User
from tests.review.pages import Browse


@pytest.fixture
def browse() -> Browse:
    """A function that returns a client signed in as the given user."""

    def sign_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return sign_in
