"""A refused form says why on its page, and loses nothing typed there, without scripts too."""

import pytest
from django.test import Client
from django.urls import reverse

from review.rules import limits
from tests.populations import population
from tests.site.world import World

TYPED = "The reviewer missed the dose of Cephalorin. "
TOO_LONG = TYPED * (limits.REMARK // len(TYPED) + 1)


@population
def world() -> World:
    return World()


def refused_forms(world: World) -> dict[str, tuple[str, dict[str, str]]]:
    """The address of each form that, refused, leads back to its page, and what is posted."""
    person, held = world["ana"].pk, world.held["confirmation"]
    return {
        "a role": (reverse("review:set-back", args=[held.case_id]), {"role": held.role, "reason": TOO_LONG}),
        "a specialty": (reverse("review:specialty", args=[held.case_id]), {"specialty": TOO_LONG}),
        "set aside": (reverse("review:set-aside", args=[person]), {"reason": TOO_LONG}),
        "approvals": (reverse("generation:reopen", args=[person]), {"reason": TOO_LONG}),
        "a run": (reverse("evaluation:run-describe", args=[world.run_id]), {"title": TOO_LONG, "note": ""}),
        "limits": (reverse("evaluation:run-budget", args=[world.run_id]), {"budget_money": TOO_LONG}),
        "a name": (reverse("review:person-anonymise", args=[person]), {"name": TOO_LONG}),
    }


FORMS = ("a role", "a specialty", "set aside", "approvals", "a run", "limits", "a name")


@pytest.mark.parametrize("form", FORMS)
def test_a_refused_form_says_why_and_shows_what_was_typed(world: World, client: Client, form: str) -> None:
    client.force_login(world["adela"])
    address, posted = refused_forms(world)[form]
    page = client.post(address, posted, follow=True)
    html = page.content.decode()
    assert page.status_code == 200
    assert "message--error" in html
    kept = html[html.index("<noscript>", html.index('id="messages"')) :]
    kept = kept[: kept.index("</noscript>")]
    assert TYPED * 3 in kept
    assert kept.index("Not saved. You wrote:") < kept.index(TYPED)
    assert TYPED not in client.get(page.redirect_chain[-1][0]).content.decode()  # once


def test_choices_tokens_and_passwords_are_not_shown_again(world: World, client: Client) -> None:
    client.force_login(world["adela"])
    held = world.held["confirmation"]
    secrets = ("password", "new_password", "password1", "oldpassword", "key_env", "secret_env", "credential", "API-Key")
    posted = {"role": held.role, "reason": TOO_LONG, "token": "a b", **dict.fromkeys(secrets, "secret words")}
    html = client.post(reverse("review:set-back", args=[held.case_id]), posted, follow=True).content.decode()
    assert TYPED in html
    assert "secret words" not in html
    assert ">a b<" not in html


def test_a_refused_bulk_action_leaves_the_other_actions_as_they_were(world: World, client: Client) -> None:
    client.force_login(world["adela"])
    posted = {
        "action": "prioritise",
        "rows": [world.waiting.pk],
        "prioritise-priority": "many",
        "withdraw-reason": TYPED,
    }
    page = client.post(reverse("review:cases"), posted)
    forms = {action.name: form for action, form in page.context["actions"]}
    assert page.status_code == 422
    assert forms["withdraw"]["reason"].value() == TYPED
    assert not forms["withdraw"].errors


def test_a_bulk_action_that_every_row_refuses_says_why_and_keeps_its_reason(world: World, client: Client) -> None:
    client.force_login(world["adela"])
    posted = {"action": "withdraw", "rows": [world.closed["withdrawn"].pk], "withdraw-reason": TYPED}
    page = client.post(reverse("review:cases"), posted)
    html = page.content.decode()
    assert page.status_code == 422
    assert "This case is closed. Not changed (1)" in html
    assert TYPED in html
    assert page.context["selected_keys"] == {world.closed["withdrawn"].pk}
