"""Fills an empty database with the demo: sources, simulated models and work in every state."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth.hashers import make_password
from django.db import transaction

from generation.batches.kind import BATCHES
from generation.batches.launch import BatchSettings
from generation.endpoints import services as endpoints_services
from generation.engine.sweeping import sweep
from generation.models import Batch, Endpoint, Source
from generation.recipes import registry
from generation.sources import services as sources_services
from mhb_site.demo import clinhallu, medhal, medhallu, medmistake, steps
from review.cases import services as cases_services
from review.management.simulated_physicians import work_queue
from review.models import Case, User
from review.rules.permissions import UserRole

HERE = Path(__file__).parent
PASSWORD = "trap-or-truth"  # noqa: S105  (the demo's accounts are public)
ROLES = {"generator": "sim-generator", "examiner": "sim-examiner"}
MODELS = (*ROLES.values(), *steps.TARGETS, "sim-judge", *medhallu.MODELS, *medmistake.MODELS)


@dataclass(frozen=True, slots=True)
class Account:
    """An account of the demo."""

    username: str
    name: str
    role: UserRole
    hospital: str = ""
    specialty: str = ""


ACCOUNTS = (
    Account("admin", "Ada Admin", UserRole.ADMIN),
    Account("ana", "Ana Reyes", UserRole.PHYSICIAN, "North Hospital", "cardiology"),
    Account("bo", "Bo Lindqvist", UserRole.PHYSICIAN, "North Hospital", "paediatrics"),
    Account("chen", "陈晓", UserRole.PHYSICIAN, "West Lake Hospital", "internal medicine"),
    Account("dina", "Dina Haddad", UserRole.PHYSICIAN, "Harbour Clinic", "oncology"),
    Account("emil", "Emil Novak", UserRole.PHYSICIAN, "Harbour Clinic", "neurology"),
    Account("fei", "吴菲", UserRole.PHYSICIAN, "West Lake Hospital", "nephrology"),
    Account("rui", "Rui Costa", UserRole.RESEARCHER),
)


def point_endpoints_at(url: str) -> None:
    """Set the address of the simulated models, whose port may differ from the last start."""
    Endpoint.objects.filter(name__in=MODELS, simulated=True).update(url=url)


def load(models_url: str, *, tell: Callable[[str], None]) -> None:
    """Fill a database in which nothing but the accounts is (`create_accounts`).

    If interrupted, it must be repeated on an empty database.
    """
    for model in MODELS:
        # Invented prices, so that the cost columns are not empty.
        endpoints_services.add_endpoint(
            name=model, url=models_url, model=model, price_in="0.5", price_out="1.5", concurrency=16
        )
    tell("Importing conversations and reports")
    sources = [
        _import_source("demo-conversations", "healthbench", HERE / "conversations.jsonl"),
        _import_source("demo-reports", "pmc-patients", HERE / "reports.json"),
    ]
    tell("Generating samples with the simulated generator")
    batches = [_generate(source) for source in sources]
    tell("Reviewing samples as simulated physicians")
    freezing = (
        "Freezing a release and evaluating three simulated models",
        "Freezing a second release and evaluating it",
    )
    for part, limit in enumerate((96, 30)):
        work_queue(steps.SEED + part, limit, steps.simulated_physicians())
        steps.apply_outcomes(*batches)
        tell(freezing[part])
        steps.evaluate("mhb", judge="sim-judge")
    # A first visitor sees a withdrawn case.
    if case := Case.objects.filter(state=Case.State.PRIMARY).order_by("-pk").first():
        admin = User.objects.get(username="admin")
        cases_services.withdraw(case.pk, actor=admin, reason="Shown as an example of a withdrawn case.")
    medhallu.load(_import_source, tell=tell)
    clinhallu.load(_import_source, tell=tell)
    medmistake.load(_import_source, tell=tell)
    medhal.load(_import_source, tell=tell)
    sweep(BATCHES)
    # The others read any language, so that there are enough for Chinese cases.
    User.objects.filter(username__in=("ana", "bo")).update(languages=["en"])


def create_accounts() -> None:
    """Create the demo's accounts.

    They share one hash of their password, because each would take as long as a page.
    """
    with transaction.atomic():
        for account in ACCOUNTS:
            first, _, last = account.name.partition(" ")
            User.objects.create_user(
                account.username,
                first_name=first,
                last_name=last,
                role=account.role,
                is_staff=account.role == UserRole.ADMIN,
                is_superuser=account.role == UserRole.ADMIN,
                hospital=account.hospital,
                specialty=account.specialty,
                simulated=account.role == UserRole.PHYSICIAN,
            )
        User.objects.update(password=make_password(PASSWORD))


def _import_source(name: str, format_name: str, path: Path) -> Source:
    run = sources_services.run_import(sources_services.start_import(path, format_name=format_name, name=name).pk)
    Source.objects.filter(pk=run.source_id).update(
        label=f"MHB demo ({format_name} layout)",
        licence="Apache-2.0",
        citation="Written by hand for the demonstration of MHB. Synthetic; not medical advice.",
        restrictions="",
    )
    return run.source


def _generate(source: Source) -> Batch:
    settings = BatchSettings(benchmark="mhb", source=source, roles=steps.bind_roles(ROLES), plan=registry.plan("mhb"))
    return steps.make_samples(settings)
