"""Endpoints are added from presets, disabled, and deleted while nothing refers to them."""

from pathlib import Path

import pytest
from django.conf import settings
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation.runs import queries
from evaluation.runs.forms import RunForm
from evaluation.runs.settings import RunSettings
from generation.endpoints import services
from generation.endpoints.providers import PROVIDERS
from generation.errors import EndpointUsed, NotCallable
from generation.models import Endpoint, EndpointDay
from review.models import PersonEvent
from tests.engine import Manage, bare_release, endpoint

pytestmark = pytest.mark.django_db


def test_presets_fill_in_a_form_that_is_accepted(admin_client: Client) -> None:
    page = reverse("generation:endpoint-new")
    for provider in PROVIDERS:
        form = admin_client.get(page, {"provider": provider.name}).context["form"]
        fields = {name: form[name].value() for name in form.fields}
        fields = {name: value for name, value in fields.items() if value is not None and value is not False}
        fields["url"] = fields["url"].replace("<", "").replace(">", "")
        posted = admin_client.post(page, {**fields, "name": provider.name, "model": "m"})
        assert posted.status_code == 302, posted.context["form"].errors
        assert posted["Location"].endswith(f"/{provider.name}/#test")


def test_an_address_that_is_none_is_refused_in_words(admin_client: Client) -> None:
    for address in ("127.0.0.1:8000/v1", "ftp://models/v1", "https://a b/v1", "https://me@models/v1"):
        refused = admin_client.post(reverse("generation:endpoint-new"), {"name": "one", "model": "m", "url": address})
        assert "Begin with http:// or https://" in refused.context["form"].errors["url"][0]


@pytest.mark.parametrize(
    "name", ["price_in", "price_out", "price_cached", "price_written", "concurrency", "rpm", "timeout"]
)
def test_a_number_that_is_too_low_is_refused_at_its_field(admin_client: Client, name: str) -> None:
    fields = {"name": "one", "model": "m", "url": "http://127.0.0.1:1/v1", "concurrency": "8", "timeout": "60"}
    fields |= {"price_in": "0", "price_out": "0"}
    lowest = {"concurrency": "0", "rpm": "0", "timeout": "0"}
    refused = admin_client.post(reverse("generation:endpoint-new"), {**fields, name: lowest.get(name, "-1")})
    assert list(refused.context["form"].errors) == [name]
    assert "Constraint" not in refused.content.decode()


def test_a_disabled_endpoint_is_not_offered_and_not_launched(admin_client: Client) -> None:
    model, judge = endpoint("http://127.0.0.1:1/v1", "one"), endpoint("http://127.0.0.1:1/v1", "judge")
    admin_client.post(reverse("generation:endpoint-disable", args=[model.name]))
    model.refresh_from_db()
    assert [each.name for each in Endpoint.objects.usable()] == [judge.name]
    with pytest.raises(NotCallable, match="disabled"):
        queries.protocol_and_data_sets(RunSettings(release=bare_release(), endpoints=[model], judge=judge))
    assert "disabled" in admin_client.get(reverse("generation:endpoints")).content.decode()
    admin_client.post(reverse("generation:endpoint-disable", args=[model.name]), {"enable": "1"})
    assert Endpoint.objects.usable().filter(name=model.name).exists()


def test_an_endpoint_is_deleted_only_while_nothing_refers_to_it(admin_client: Client) -> None:
    unused, used = endpoint("http://127.0.0.1:1/v1", "one"), endpoint("http://127.0.0.1:1/v1", "two")
    EndpointDay.objects.create(endpoint=used, day=timezone.now().date(), calls=1)
    with pytest.raises(EndpointUsed):
        services.delete_endpoint(used)
    headers = {"Referer": f"http://testserver{reverse('generation:endpoint', args=[used.name])}"}
    refused = admin_client.post(reverse("generation:endpoint-delete", args=[used.name]), headers=headers, follow=True)
    assert "Disable it instead" in refused.content.decode()
    admin_client.post(reverse("generation:endpoint-delete", args=[unused.name]))
    assert [each.name for each in Endpoint.objects.all()] == [used.name]


def test_a_page_records_changes_and_keeps_the_address_that_results_refer_to(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = endpoint("http://127.0.0.1:1/v1", "one")
    address = reverse("generation:endpoint", args=[row.name])
    form = admin_client.get(address).context["form"]
    values = {name: form[name].value() for name in form.fields}
    fields = {name: value for name, value in values.items() if value is not None and value is not False}
    posted = admin_client.post(address, {**fields, "concurrency": 3})
    assert posted.status_code == 302, posted.context["form"].errors
    assert set(PersonEvent.objects.latest("sequence").data["changes"]) == {"concurrency"}
    answered = iter([False, True, True])  # for the first time while the page was open
    monkeypatch.setattr("generation.endpoints.queries.has_answered", lambda _endpoint: next(answered))
    refused = admin_client.post(address, {**fields, "url": "http://127.0.0.1:2/v1", "rpm": 9})
    assert (refused.status_code, "already been called" in refused.content.decode()) == (422, True)
    row.refresh_from_db()
    assert (row.url, row.concurrency, row.rpm) == ("http://127.0.0.1:1/v1", 3, None)


@pytest.mark.both
def test_api_and_command_disable_enable_and_delete(admin_client: Client, manage: Manage) -> None:
    endpoint("http://127.0.0.1:1/v1", "one", name="one")
    used = endpoint("http://127.0.0.1:1/v1", "two", name="two")
    EndpointDay.objects.create(endpoint=used, day=timezone.now().date(), calls=1)
    for action, disabled in (("disable", True), ("enable", False)):
        answer = admin_client.post(reverse(f"api:endpoint-{action}", args=["one"])).json()
        assert (answer["name"], answer["disabled"]) == ("one", disabled)
        assert manage.json("control_endpoint", action, "two") == {"endpoint": "two", "state": f"{action}d"}
        used.refresh_from_db()
        assert used.disabled is disabled
    assert admin_client.delete(reverse("api:endpoint", args=["two"])).status_code == 409
    assert "Disable it instead" in manage.refusal("control_endpoint", "delete", "two")
    assert admin_client.delete(reverse("api:endpoint", args=["one"])).status_code == 204
    endpoint("http://127.0.0.1:1/v1", "one", name="one")
    assert manage.json("control_endpoint", "delete", "one")["state"] == "deleted"
    assert [each.name for each in Endpoint.objects.all()] == ["two"]


def test_presets_and_the_table_of_providers_agree() -> None:
    text = (Path(settings.BASE_DIR) / "docs/engine.md").read_text()
    table = text[text.index("| provider | what differs | setting |") :].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    named = {name for names, _differs, _setting in rows for name in names.replace(", compatible", "").split(", ")}
    presets = {name for provider in PROVIDERS for name in provider.label.split(", ")}
    assert named - presets == {"Azure", "TGI", "endpoints that only stream"}, "a provider without a preset"
    assert presets - named == {"OpenAI", "Azure OpenAI"}, "a preset that nothing is said of"
    stated = {setting.strip("`") for *_names, setting in rows if setting}
    preset = {name for provider in PROVIDERS if "concurrency" not in provider.settings for name in provider.settings}
    assert stated <= {field.name for field in Endpoint._meta.fields}
    assert preset - stated == {"batches", "prompt_cache_key"}, "what only OpenAI, which has no row, is set to"


def test_planned_comparisons_are_selects_and_models_show_their_health() -> None:
    for name in ("one", "two", "judge"):
        endpoint("http://127.0.0.1:1/v1", name, name=name)
    release = bare_release()
    data = {"release": release.pk, "judge": "judge", "comparisons.first": "two", "comparisons.second": "one"}
    data |= {"judging": "per-rubric", "sampling": "protocol", "transport": "live", "minimum": 10, "answers": 1}
    form = RunForm(initial={"release": release, "comparisons": ["one:two"]})
    assert form["comparisons"].value() == [["one", "two"]]
    assert "not tested" in str(form["endpoints"])
    posted = QueryDict(mutable=True)
    posted.update({name: form[name].value() for name in form.fields if form[name].value()} | data)
    posted.setlist("endpoints", ["one", "two"])
    bound = RunForm(posted)
    assert bound.is_valid(), bound.errors
    assert bound.settings.comparisons == ["two:one"]
