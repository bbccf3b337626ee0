"""Sites for journeys. Without PostgreSQL and Redis production sites are skipped; on CI that is a
failure."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Site, running_site
from tests.profile import installed


@pytest.fixture(params=["embedded", "production"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A migrated site without processes, of each kind in turn unless a test chooses its kinds."""
    with installed(), running_site(request.param, tmp_path) as running:
        yield running


@pytest.fixture(autouse=True)
def close_browser_contexts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close all pages after a test; otherwise they keep sending requests to a site that has
    stopped."""
    yield
    if "browser" in request.fixturenames:
        for context in request.getfixturevalue("browser").contexts:
            context.close()
