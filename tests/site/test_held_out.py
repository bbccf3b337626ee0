"""No page and no answer of the API shows a reader of results anything of a held-out sample."""

import io
import re
import zipfile
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation.models import Judgment, Response, Run
from generation.models import Call, EndpointState, ProviderBatch, ReleasedSample, Rubric, SampleVersion
from generation.models.sent_texts import pack_request
from generation.releases.freezing.composition import Composition
from generation.samples import errata
from tests.api.test_permissions import EXPECTED
from tests.api.test_permissions import routes as api_routes
from tests.populations import population
from tests.site.routes import address, is_django_admin, routes
from tests.site.world import World

WORD = "hidden-{}-hidden"  # in every text about a sample, with its number


class HeldOutWorld(World):
    """A world with one held-out sample; every text about a sample has a word of its own."""

    def _add_release_and_runs(self) -> None:
        versions = list(SampleVersion.objects.filter(status="approved").select_related("sample__record"))
        for version in versions:
            word = WORD.format(version.sample_id)
            traps = [{**trap, "false": f"{trap['false']} {word}", "why": word} for trap in version.content["traps"]]
            SampleVersion.objects.filter(pk=version.pk).update(title=word, content={**version.content, "traps": traps})
            for rubric in Rubric.objects.filter(version=version):
                Rubric.objects.filter(pk=rubric.pk).update(criterion=f"{rubric.criterion} {word}")
        self.composition = next(
            composition
            for composition in (Composition(held_out=0.5, seed=seed) for seed in range(1, 100))
            if sum(composition.holds_out("own", version.sample.record.external_id) for version in versions) == 1
        )
        super()._add_release_and_runs()
        self.hidden = ReleasedSample.objects.get(release=self.release_id, split="held-out")
        self.public = ReleasedSample.objects.get(release=self.release_id, split="public")
        self.secret = WORD.format(self.hidden.version.sample_id)
        self.released_key = self.hidden.key
        self.judgment_id = Judgment.objects.filter(run=self.run_id, rubric__sample=self.hidden).order_by("pk")[0].pk
        self._add_texts()

    def _add_texts(self) -> None:
        """Texts of models and judges on either sample, in failed calls too; an erratum of each."""
        for sample in (self.hidden, self.public):
            word = WORD.format(sample.version.sample_id)
            Response.objects.filter(sample=sample).update(text=word, reasoning=word, detail=word)
            Judgment.objects.filter(rubric__sample=sample).update(explanation=word, detail=word)
            subjects = [f"response:{row.pk}" for row in Response.objects.filter(run=self.run_id, sample=sample)]
            subjects += [
                f"judgment:{row.pk}" for row in Judgment.objects.filter(run=self.run_id, rubric__sample=sample)
            ]
            for subject in subjects:
                Call.objects.create(
                    job_id=self.run_id, subject=subject, endpoint=self.judge, model="judge", text=word, detail=word,
                    request=pack_request({"messages": [{"role": "user", "content": word}]}), seconds=1.0, attempt=1,
                    error="BrokenReply", started_at=timezone.now(),
                )  # fmt: skip
            errata.report(sample.version.sample_id, actor=self["adela"], reason=f"Wrong: {word}")


@population
def world() -> HeldOutWorld:
    return HeldOutWorld()


def api_addresses(world: World) -> list[str]:
    """The addresses of everything that the API gives to readers of results."""
    values = {"name": "own", "version": 1, "pk": world.run_id, "other": world.running_id, "benchmark": "mhb"}
    values |= {"sha256": world.image, "stage": "primary"}
    addresses = []
    for name, route in api_routes().items():
        if (name, "GET") in EXPECTED and "researcher" in EXPECTED[name, "GET"]:
            arguments = {key: values.get(key, 1) for key in route.pattern.converters}
            addresses.append(reverse(f"api:{name}", kwargs=arguments))
    return addresses


def with_queries(world: HeldOutWorld, addresses: list[str]) -> list[str]:
    """The same addresses; those about results also with queries that ask for the sample."""
    part = world.secret.removesuffix("-hidden")  # which a page may repeat
    about_results = [plain for plain in addresses if re.search("/(releases|runs)/.", plain)]
    other = [f"{plain}?selected={world.hidden.pk}&text={part}&split=held-out" for plain in about_results]
    asked = [f"{plain}?selected={world.judgment_id}" for plain in about_results if "/judgments/" in plain]
    formats = [f"{plain}?format={name}" for plain in addresses if "export" in plain for name in ("jsonl", "csv", "hf")]
    runs = [f"{plain}?run={world.running_id}" for plain in addresses if plain.endswith("/compare/")]
    return [*addresses, *asked, *formats, *runs, *other]


def content_of(answer: Any) -> bytes:
    """Everything that an answer says, files in a zip included."""
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    if content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            content = b"\n".join(packed.read(name) for name in packed.namelist())
    return content


def pages_with_the_secret(world: HeldOutWorld, name: str) -> set[str]:
    client = Client()
    client.force_login(world[name])
    pages = [address(route, world) for route in routes() if not is_django_admin(route) and "logout" not in route]
    found = set()
    for page in with_queries(world, [*pages, *api_addresses(world)]):
        answer = client.get(page)
        if answer.status_code == 200 and world.secret.encode() in content_of(answer):
            found.add(page.partition("?")[0])
    return found


def test_a_reader_of_results_meets_no_text_of_a_held_out_sample(world: HeldOutWorld) -> None:
    assert pages_with_the_secret(world, "rui") == set()


def test_an_admin_meets_them_where_a_reader_meets_those_of_public_samples(world: HeldOutWorld) -> None:
    run, sample = f"/evaluation/runs/{world.run_id}/", world.hidden.key
    places = {f"{run}judgments/", f"{run}judgments/{world.judgment_id}/calls/", f"{run}samples/{sample}/"}
    places |= {f"{run}failures/", f"/api/v1/runs/{world.run_id}/judgments/"}
    places |= {f"/api/v1/runs/{world.run_id}/{name}/" for name in ("responses", "failures")}
    assert places <= pages_with_the_secret(world, "adela")
    world.secret, world.hidden = WORD.format(world.public.version.sample_id), world.public
    world.released_key = world.public.key
    world.judgment_id = Judgment.objects.filter(run=world.run_id, rubric__sample=world.public).order_by("pk")[0].pk
    readable = {place.replace(sample, world.public.key) for place in places if "/calls/" not in place}
    assert readable <= pages_with_the_secret(world, "rui")


def test_what_servers_said_of_a_run_is_read_by_those_who_control_it(world: HeldOutWorld) -> None:
    word, now = world.secret, timezone.now()
    run = Run.objects.get(pk=world.run_id)
    for asked in (world.judge, run.tested.order_by("pk")[0].endpoint):
        state = {"error": "BadRequest", "detail": word, "down_since": now}
        EndpointState.objects.update_or_create(endpoint=asked, defaults=state)
    ProviderBatch.objects.create(
        job=run, endpoint=world.judge, lines_count=1, error="BatchRefused", detail=word, created_at=now, next_at=now
    )
    tried: dict[str, Any] = {
        "role": "target",
        "prompt": "",
        "seconds": 1.0,
        "cost": "0",
        "answered": False,
        "blocks": True,
    }
    tried["findings"] = [{"code": "refused", "detail": word}]
    Run.objects.filter(pk=run.pk).update(
        status="paused", paused_because="EndpointDown", paused_detail=word, transport="batch",
        model_checks={"1": {"endpoint": "judge", "tried": [tried]}},
    )  # fmt: skip
    world.running_id = run.pk
    page = f"/evaluation/runs/{run.pk}/"
    assert {page, f"{page}progress/", f"/api/v1/runs/{run.pk}/"} <= pages_with_the_secret(world, "adela")
    assert pages_with_the_secret(world, "rui") == set()


def test_the_seed_by_which_records_are_held_out_is_for_their_makers(world: HeldOutWorld) -> None:
    release = world.hidden.release
    for name, is_shown in (("rui", False), ("adela", True), ("aud", True)):
        client = Client()
        client.force_login(world[name])
        answer = client.get(reverse("api:release", args=[release.name, release.version])).json()
        assert ("seed" in answer["composition"]) == is_shown


@pytest.mark.both
def test_the_cut_of_a_search_counts_no_match_in_a_held_out_sample(
    world: HeldOutWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = reverse("evaluation:judgments", args=[world.run_id])
    public = Judgment.objects.filter(run=world.run_id, rubric__sample=world.public)
    monkeypatch.setattr("evaluation.answers.search.MAX_MATCHES", public.count())
    for name, has_more in (("rui", False), ("adela", True)):
        client = Client()
        client.force_login(world[name])
        answer = client.get(page, {"text": "hidden"})
        assert answer.context["more"] == has_more
        if name == "rui":
            assert answer.context["found"] == public.count()


@pytest.mark.parametrize("name", ["rui", "ana"])
def test_no_key_of_a_held_out_sample_is_listed(world: HeldOutWorld, name: str) -> None:
    client = Client()
    client.force_login(world[name])
    world.secret = world.hidden.key
    listed = {reverse("evaluation:human-baseline", args=[world.run_id]), reverse("generation:release", args=["own", 1])}
    for page in [*listed, *api_addresses(world)]:
        answer = client.get(page)
        if answer.status_code == 200 and "bundle" not in page:
            assert world.hidden.key.encode() not in content_of(answer), page


def test_the_search_finds_a_held_out_sample_for_nobody_but_its_makers(world: HeldOutWorld) -> None:
    release = world.hidden.release
    address = reverse("generation:release-sample", args=[release.name, release.version, world.hidden.key])
    for name, is_found in (("rui", False), ("adela", True)):
        client = Client()
        client.force_login(world[name])
        assert (address in client.get(reverse("search"), {"q": world.hidden.key}).content.decode()) == is_found
