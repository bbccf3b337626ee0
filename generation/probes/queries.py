"""Reads what probes found."""

from django.db.models import Q

from generation.models import Batch, ProbeWork, Release, Source
from generation.probes import stored
from generation.probes.measuring import ProbeReport
from generation.probes.reading import has_labelled_answers

Target = Source | Release | Batch
STORED = "probes"  # in `Release.about`


def target_field(target: Target) -> str:
    """The column of `ProbeWork` that names a set of this kind."""
    return {Source: "source", Release: "release", Batch: "batch"}[type(target)]


def works(target: Target) -> "list[ProbeWork]":
    """The probings of a set, the newest first."""
    return list(ProbeWork.objects.filter(Q(**{target_field(target): target})).order_by("-pk")[:20])


def latest(target: Target) -> ProbeWork | None:
    """The newest finished probing of a set."""
    done = ProbeWork.objects.filter(Q(**{target_field(target): target}), status=ProbeWork.Status.DONE)
    return done.order_by("-pk").first()


def unfinished(target: Target) -> ProbeWork | None:
    """The probing of a set that is queued or running."""
    open_ = (ProbeWork.Status.QUEUED, ProbeWork.Status.RUNNING)
    return ProbeWork.objects.filter(Q(**{target_field(target): target}), status__in=open_).order_by("pk").first()


def report(target: Target) -> ProbeReport | None:
    """What probes tell of a set: the result stored at a release's freeze, else the newest one.

    None if it was not probed yet. For the claim *cannot be told without reading*: `report.tells` is
    True (the claim fails), False (it holds) or None (`report.reason` says why there is no number);
    the figure is the `accuracy` of `report.strongest` with `low` and `high`, beside
    `report.chance`.
    """
    if isinstance(target, Release) and target.about.get(STORED):
        return stored.from_json(target.about[STORED])
    work = latest(target)
    return stored.from_json(work.result) if work is not None else None


def can_be_probed(target: Target) -> bool:
    """Whether a set may have answers that are known to be right or wrong."""
    return isinstance(target, Source) or has_labelled_answers(target.benchmark)
