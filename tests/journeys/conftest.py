"""Sites for journeys. Without PostgreSQL and Redis the production kind is skipped by name; on CI that is a failure."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import servers
from tests.processes import Site, running_site


@pytest.fixture(params=["embedded", "production"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A migrated site without any process yet, of both kinds in turn, unless a test says which."""
    try:
        with running_site(request.param, tmp_path) as running:
            yield running
    except servers.Missing as missing:
        if servers.ci():
            raise
        pytest.skip(str(missing))


@pytest.fixture(autouse=True)
def everybody_leaves(request: pytest.FixtureRequest) -> Iterator[None]:
    """Pages that stay open go on asking a site that is gone, for as long as the browser lives."""
    yield
    if "browser" in request.fixturenames:
        for context in request.getfixturevalue("browser").contexts:
            context.close()
