"""The demo's real models: those that `make real` has installed answer, and one of them judges."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from evaluation.models import Run
from evaluation.runs import services as runs_services
from evaluation.runs.settings import RunSettings
from generation.batches.launch import BatchSettings
from generation.endpoints import services as endpoints_services
from generation.models import Endpoint, Source
from generation.releases import services as releases_services
from generation.releases.freezing.composition import Composition
from mhb_site.demo import steps

PYTHON = settings.BASE_DIR / ".real" / "bin" / "python"
SERVER = Path(__file__).with_name("real_server.py")
CONTEXT = 8_192  # tokens
MAX_TOKENS = 300  # of an answer: a minute or less of the slowest model
TIMEOUT = 1_800.0  # seconds: a busy machine reads twenty tokens a second
CONVERSATIONS = 3
RELEASE = "real-models"


def installed() -> list[str]:
    """The installed models, smallest first."""
    if not PYTHON.exists():
        return []
    listing = subprocess.run([PYTHON, SERVER], capture_output=True, text=True, check=True)  # noqa: S603
    return listing.stdout.split()


def server(model: str, port: int) -> list[str]:
    """The command line of a model's server."""
    return [str(PYTHON), str(SERVER), model, str(port), str(CONTEXT)]


def ask(addresses: Mapping[str, str]) -> None:
    """Let models answer at these addresses; the first time, launch a run that a worker does.

    `addresses`: the base URL of each model, smallest first; the last one is the judge, too. The
    questions are hand-written conversations of the demo with criteria of their own (benchmark
    `healthbench`): models of this size write few samples that pass MHB's checks.
    """
    endpoints = [_endpoint(model, url) for model, url in addresses.items()]
    if Run.objects.filter(release__name=RELEASE).exists():
        return
    conversations = Source.objects.get(name="demo-conversations")
    steps.make_samples(BatchSettings(benchmark="healthbench", source=conversations, roles={}, limit=CONVERSATIONS))
    release = releases_services.freeze_release(
        RELEASE, benchmark="healthbench", composition=Composition(with_unreviewed=True)
    )
    runs_services.launch_run(
        RunSettings(release=release, endpoints=endpoints, judge=endpoints[-1], sampling=Run.Sampling.ENDPOINT)
    )


def _endpoint(model: str, url: str) -> Endpoint:
    """The endpoint of a model, at the address of this start."""
    name = model.replace(".", "-")
    known = Endpoint.objects.filter(name=name)
    if known.update(url=url):
        return known.get()
    return endpoints_services.add_endpoint(
        name=name, url=url, model=model, max_tokens=MAX_TOKENS, concurrency=1, timeout=TIMEOUT
    )
