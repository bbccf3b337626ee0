"""Permissions: every route and method of the API against every role.

A route that is missing from the table fails here.
"""

from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from review.models import User
from review.rules.permissions import UserRole
from tests.api.conftest import Api
from tests.review.factories import account

SIGNED_IN: set[str] = set(UserRole)
ANYBODY = {"anonymous", *SIGNED_IN}
PHYSICIAN: set[str] = {UserRole.PHYSICIAN}
ADMIN: set[str] = {UserRole.ADMIN}
READERS: set[str] = {UserRole.ADMIN, UserRole.RESEARCHER}

EXPECTED: dict[tuple[str, str], set[str]] = {
    ("token", "POST"): ANYBODY,
    ("logout", "POST"): SIGNED_IN,
    ("logoutall", "POST"): SIGNED_IN,
    ("me", "GET"): SIGNED_IN,
    ("upload-right", "GET"): SIGNED_IN,  # by address, see tests/site/test_web_server.py
    ("schema", "GET"): READERS,
    ("sources", "GET"): ADMIN,
    ("source", "GET"): ADMIN,
    ("source-probes", "GET"): ADMIN,
    ("source-probes", "POST"): ADMIN,
    ("batch-probes", "GET"): ADMIN,
    ("batch-probes", "POST"): ADMIN,
    ("release-probes", "GET"): READERS,
    ("release-probes", "POST"): ADMIN,
    ("source-records", "GET"): ADMIN,
    ("imports", "GET"): ADMIN,
    ("imports", "POST"): ADMIN,
    ("imports-preview", "POST"): ADMIN,
    ("imports-mappings", "GET"): ADMIN,
    ("imports-mappings", "POST"): ADMIN,
    ("import", "GET"): ADMIN,
    ("import-cancel", "POST"): ADMIN,
    ("import-refusals", "GET"): ADMIN,
    (
        "image",
        "GET",
    ): SIGNED_IN,  # physicians: those of their own cases only, see tests/generation/images/test_access.py
    ("webhooks", "GET"): ADMIN,
    ("webhooks", "POST"): ADMIN,
    ("webhook", "PATCH"): ADMIN,
    ("webhook-test", "POST"): ADMIN,
    ("webhook", "DELETE"): ADMIN,
    ("deliveries", "GET"): ADMIN,
    ("endpoints", "GET"): ADMIN,
    ("endpoints", "POST"): ADMIN,
    ("endpoint", "GET"): ADMIN,
    ("endpoint", "PATCH"): ADMIN,
    ("endpoint", "DELETE"): ADMIN,
    ("endpoint-disable", "POST"): ADMIN,
    ("endpoint-enable", "POST"): ADMIN,
    ("endpoint-test", "POST"): ADMIN,
    ("endpoint-endings", "GET"): ADMIN,
    ("endpoint-endings", "POST"): ADMIN,
    ("endpoint-usage", "GET"): ADMIN,
    ("batches", "GET"): ADMIN,
    ("batches", "POST"): ADMIN,
    ("batch", "GET"): ADMIN,
    ("batch-analysis", "GET"): ADMIN,
    ("batch-costs", "GET"): ADMIN,
    ("batch-funnel", "GET"): ADMIN,
    ("sample-retry", "POST"): ADMIN,
    ("sample-draw-again", "POST"): ADMIN,
    ("batch-failures", "GET"): ADMIN,
    ("batch-estimate", "POST"): ADMIN,
    ("batch-pause", "POST"): ADMIN,
    ("batch-resume", "POST"): ADMIN,
    ("batch-adapt", "POST"): ADMIN,
    ("batch-budget", "POST"): ADMIN,
    ("batch-cancel", "POST"): ADMIN,
    ("batch-retry", "POST"): ADMIN,
    ("batch-drafts", "GET"): ADMIN,
    ("batch-findings", "GET"): ADMIN,
    ("draft-send-to-review", "POST"): ADMIN,
    ("draft-discard", "POST"): ADMIN,
    ("attempts", "GET"): ADMIN,
    ("comparisons", "GET"): ADMIN,
    ("comparisons", "POST"): ADMIN,
    ("comparison-estimate", "POST"): ADMIN,
    ("comparison", "GET"): ADMIN,
    ("comparison-pairs", "GET"): ADMIN,
    ("draft-calls", "GET"): ADMIN,
    ("samples", "GET"): ADMIN,
    ("sample", "GET"): ADMIN,
    ("sample-errata", "GET"): ADMIN,
    ("sample-report", "POST"): READERS,
    ("sample-dismiss", "POST"): ADMIN,
    ("sample-withdraw", "POST"): ADMIN,
    ("review-report", "POST"): PHYSICIAN,
    ("cases", "GET"): ADMIN,
    ("case", "GET"): ADMIN,
    ("case-withdraw", "POST"): ADMIN,
    ("case-priority", "POST"): ADMIN,
    ("case-reassign", "POST"): ADMIN,
    ("case-specialty", "POST"): ADMIN,
    ("case-language", "POST"): ADMIN,
    ("case-set-back", "POST"): ADMIN,
    ("case-calibration", "POST"): ADMIN,
    ("calibration", "GET"): ADMIN,
    ("calibration-item", "PATCH"): ADMIN,
    ("people", "GET"): ADMIN,
    ("people", "POST"): ADMIN,
    ("person-active", "POST"): ADMIN,
    ("person-anonymise", "POST"): ADMIN,
    ("person-password", "POST"): ADMIN,
    ("person-second-factor", "POST"): ADMIN,
    ("person-import", "POST"): ADMIN,
    ("person-invite", "POST"): ADMIN,
    ("person-uninvite", "POST"): ADMIN,
    ("case-remarks", "GET"): ADMIN,
    ("case-tasks", "GET"): ADMIN,
    ("case-annotations", "POST"): ADMIN,
    ("case-remarks", "POST"): ADMIN,
    ("assignment-remarks", "GET"): PHYSICIAN,
    ("assignment-remarks", "POST"): PHYSICIAN,
    ("assignment-activity", "POST"): PHYSICIAN,
    ("guidelines", "GET"): ADMIN | PHYSICIAN,
    ("guideline-versions", "GET"): ADMIN,
    ("guideline-versions", "POST"): ADMIN,
    ("review-forms", "GET"): ADMIN,
    ("review-form-versions", "GET"): ADMIN,
    ("review-form-versions", "POST"): ADMIN,
    ("review-form-check", "POST"): ADMIN,
    ("audit", "GET"): ADMIN,
    ("audit-acts", "GET"): ADMIN,
    ("audit-check", "POST"): ADMIN,
    ("audit-checksum", "GET"): ADMIN,
    ("audit-events", "GET"): ADMIN,
    ("review-progress", "GET"): ADMIN,
    ("person", "GET"): ADMIN,
    ("person", "PATCH"): ADMIN,
    ("person-pause", "POST"): ADMIN,
    ("person-calibration", "POST"): ADMIN,
    ("assignment-next", "POST"): PHYSICIAN,
    ("assignment-decline", "POST"): PHYSICIAN,
    ("assignment-problem", "POST"): PHYSICIAN,
    ("assignment", "GET"): PHYSICIAN,
    ("assignment-heartbeat", "POST"): PHYSICIAN,
    ("assignment-draft", "PUT"): PHYSICIAN,
    ("assignment-reveal", "POST"): PHYSICIAN,
    ("assignment-sign", "POST"): PHYSICIAN,
    ("assignment-submit", "POST"): PHYSICIAN,
    ("assignment-release", "POST"): PHYSICIAN,
    ("review-mine", "GET"): PHYSICIAN,
    ("review-agreement", "GET"): ADMIN,
    ("reviewer-me", "GET"): PHYSICIAN,
    ("reviewer", "GET"): ADMIN,
    ("reviewer-set-aside", "POST"): ADMIN,
    ("reviewer-reopen", "POST"): ADMIN,
    ("reviewer-restore", "POST"): ADMIN,
    ("review-care", "GET"): ADMIN,
    ("review-correct", "POST"): PHYSICIAN,
    ("review-retract", "POST"): PHYSICIAN,
    ("rewordings", "GET"): PHYSICIAN,
    ("rewording", "GET"): PHYSICIAN,
    ("rewording-accept", "POST"): PHYSICIAN,
    ("rewording-object", "POST"): PHYSICIAN,
    ("releases", "GET"): READERS,
    ("releases", "POST"): ADMIN,
    ("freezes", "GET"): ADMIN,
    ("freeze", "GET"): ADMIN,
    ("release", "GET"): READERS,
    ("release-samples", "GET"): READERS,
    ("release-changes", "GET"): READERS,
    ("release-export", "GET"): READERS,
    ("release-ratings", "GET"): READERS,
    ("release-card", "GET"): READERS,
    ("release-results", "GET"): READERS,
    ("release-publish", "POST"): ADMIN,
    ("release-withdraw", "POST"): ADMIN,
    ("release-publish-incomplete", "POST"): ADMIN,
    ("release-withdraw-incomplete", "POST"): ADMIN,
    ("runs", "GET"): READERS,
    ("runs", "POST"): ADMIN,
    ("run", "GET"): READERS,
    ("run-failures", "GET"): READERS,
    ("run-estimate", "POST"): ADMIN,
    ("run-pause", "POST"): ADMIN,
    ("run-resume", "POST"): ADMIN,
    ("run-adapt", "POST"): ADMIN,
    ("run-budget", "POST"): ADMIN,
    ("run-cancel", "POST"): ADMIN,
    ("run-retry", "POST"): ADMIN,
    ("run-import", "POST"): ADMIN,
    ("results-import", "GET"): ADMIN,
    ("playground", "POST"): ADMIN,
    ("removal", "POST"): ADMIN,
    ("prompts", "GET"): READERS,
    ("prompts", "POST"): ADMIN,
    ("prompt-set", "GET"): READERS,
    ("run-models", "POST"): ADMIN,
    ("run-policies", "POST"): ADMIN,
    ("run-policies-estimate", "POST"): ADMIN,
    ("run-again", "POST"): ADMIN,
    ("run-again-estimate", "POST"): ADMIN,
    ("run-leave-out", "POST"): ADMIN,
    ("run-add-again", "POST"): ADMIN,
    ("run-models-estimate", "POST"): ADMIN,
    ("run-bundle", "GET"): READERS,
    ("run-compare", "GET"): READERS,
    ("release-power", "GET"): READERS,
    ("run-claims", "GET"): READERS,
    ("run-report", "GET"): READERS,
    ("run-report-md", "GET"): READERS,
    ("run-validation", "GET"): READERS,
    ("run-validation", "POST"): ADMIN,
    ("run-responses", "GET"): READERS,
    ("run-judgments", "GET"): READERS,
    ("run-human-baseline", "GET"): READERS,
}
ARGUMENTS = {
    "name": "none",
    "pk": 4711,
    "sha256": "0" * 64,
    "version": 1,
    "other": 4712,
    "assignment_id": 1,
    "review_id": 1,
    "rewording_id": 1,
    "benchmark": "none",
    "stage": "none",
}


def routes(patterns: list[Any] | None = None, *, inside: bool = False) -> dict[str, URLPattern]:
    """All routes in the namespace `api`, by name."""
    by_name: dict[str, URLPattern] = {}
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(entry, URLResolver):
            by_name |= routes(entry.url_patterns, inside=inside or entry.namespace == "api")
        elif inside:
            assert entry.name, f"{entry} has no name"
            assert entry.name not in by_name, f"two routes are named {entry.name}"
            by_name[entry.name] = entry
    return by_name


def methods(route: URLPattern) -> set[str]:
    """The HTTP methods that a route's view implements."""
    callback: Any = route.callback
    if actions := getattr(callback, "actions", None):
        return {name.upper() for name in actions} - {"OPTIONS", "HEAD"}
    view = callback.cls
    return {name.upper() for name in view.http_method_names if hasattr(view, name)} - {"OPTIONS", "HEAD"}


def address(name: str) -> str:
    """The address of a route, with made-up arguments."""
    parameters = routes()[name].pattern.converters
    return reverse(f"api:{name}", kwargs={key: ARGUMENTS[key] for key in parameters})


@pytest.mark.plain
def test_the_table_lists_every_route_and_no_other() -> None:
    assert {(name, method) for name, route in routes().items() for method in methods(route)} == set(EXPECTED)


@pytest.mark.plain
def test_only_the_docs_are_outside_the_namespace_of_the_api() -> None:
    outside = [
        str(entry.pattern)
        for api in get_resolver().url_patterns
        if isinstance(api, URLResolver) and str(api.pattern) == "api/"
        for entry in api.url_patterns
        if not (isinstance(entry, URLResolver) and entry.namespace == "api")
    ]
    assert outside == ["docs/"]


@pytest.mark.parametrize("role", ["anonymous", *UserRole])
def test_each_role_reaches_exactly_what_the_table_says(api: Api, adela: User, rui: User, ana: User, role: str) -> None:
    people = {UserRole.ADMIN: adela, UserRole.RESEARCHER: rui, UserRole.PHYSICIAN: ana}
    people[UserRole.AUDITOR] = account("aud", UserRole.AUDITOR)
    mismatches = []
    for (name, method), allowed in EXPECTED.items():
        client = api(people[UserRole(role)] if role in people else None)
        status = client.generic(method, address(name), "{}", content_type="application/json").status_code
        # The body is empty and the rows do not exist: 404, 400 or 415, except for lists (200, 204).
        # Auditors read what admins and researchers do, and change nothing.
        if role == UserRole.AUDITOR and allowed != SIGNED_IN and allowed != ANYBODY:
            allowed = {role} if method == "GET" and allowed & {UserRole.ADMIN, UserRole.RESEARCHER} else set()
        expected = {200, 202, 204, 400, 404, 415} if role in allowed else {401} if role == "anonymous" else {403}
        if status not in expected:
            mismatches.append((name, method, status))
    assert mismatches == []


def test_a_closed_account_reaches_nothing(api: Api, adela: User) -> None:
    client = api(adela)
    adela.is_active = False
    adela.save()
    assert client.get(address("cases")).status_code == 401


def test_a_view_that_declares_no_permission_is_closed_to_all(adela: User) -> None:
    from rest_framework.response import Response
    from rest_framework.test import APIRequestFactory, force_authenticate
    from rest_framework.views import APIView

    class Forgotten(APIView):
        def get(self, request: Any) -> Response:
            return Response("open")

    request = APIRequestFactory().get("/")
    force_authenticate(request, adela)
    assert Forgotten.as_view()(request).status_code == 403


def test_only_readers_see_the_docs(client: Any, rui: User, ana: User) -> None:
    answer = client.get(reverse("api-docs"))
    assert answer.status_code == 302
    assert answer["Location"].startswith(reverse("account_login"))
    client.force_login(ana)
    assert client.get(reverse("api-docs")).status_code == 403
    client.force_login(rui)
    assert client.get(reverse("api-docs")).status_code == 200
