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


def failed(target: Target) -> ProbeWork | None:
    """The newest probing of a set, if it failed."""
    newest = ProbeWork.objects.filter(Q(**{target_field(target): target})).order_by("-pk").first()
    if newest is not None and newest.status == ProbeWork.Status.FAILED:
        return newest
    return None


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
    if isinstance(target, Release) and (kept := frozen_report(target)) is not None:
        return kept
    work = latest(target)
    if work is not None:
        return stored.from_json(work.result)
    return None


def shown(target: Target, *, with_held_out: bool) -> stored.ShownProbes | None:
    """What was found when a set was frozen or last probed; None if it was not."""
    found = report(target)
    if found is not None:
        return stored.as_shown(found, with_held_out=with_held_out)
    return None


def frozen_report(release: Release) -> ProbeReport | None:
    """What was found at a release's freeze, which never changes; None if it was frozen before."""
    kept = release.about.get(STORED)
    if kept:
        return stored.from_json(kept)
    return None


def can_be_probed(target: Target) -> bool:
    """Whether a set may have answers that are known to be right or wrong."""
    return isinstance(target, Source) or has_labelled_answers(target.benchmark)
