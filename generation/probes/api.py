"""The API of probes."""

from typing import Any

from django.shortcuts import get_object_or_404
from rest_framework.request import Request
from rest_framework.views import APIView

from generation.models import Batch, ProbeWork
from generation.probes import queries, services
from generation.probes.stored import ShownProbes, as_shown
from generation.releases import queries as releases_queries
from generation.sources import queries as sources_queries
from review.common.actions import answers
from review.common.decorators import signed_in_account
from review.common.serializers import extended, rows_of, serializer_of
from review.rules.permissions import Can, may_read

ProbeWorkSerializer = rows_of(
    "ProbeWork",
    ProbeWork,
    "id status tried total detail created_at",
    "A probing in progress: `tried` of `total` probes.",
)


ProbesSerializer = extended("Probes", serializer_of(ShownProbes), progress=ProbeWorkSerializer(allow_null=True))


class _Probes(APIView):
    """What probes tell of a set."""

    can: Any = Can.PRODUCE

    def found(self, request: Request, target: queries.Target) -> dict[str, Any]:
        with_held_out = may_read(request.user, Can.PRODUCE)
        report = queries.report(target) or services.NOT_PROBED
        return {**as_shown(report, with_held_out=with_held_out), "progress": queries.unfinished(target)}


class SourceProbes(_Probes):
    """Probes of a source."""

    @answers(ProbesSerializer)
    def get(self, request: Request, name: str) -> Any:
        """What probes tell of a source."""
        return self.found(request, sources_queries.source(name))

    @answers(ProbeWorkSerializer, status=202)
    def post(self, request: Request, name: str) -> Any:
        """Have a source probed by a worker; one that is under way is returned. It asks no model."""
        return services.start(sources_queries.source(name), signed_in_account(request))


class ReleaseProbes(_Probes):
    """Probes of a release."""

    can = {"GET": Can.READ_RESULTS, "POST": Can.PRODUCE}

    @answers(ProbesSerializer)
    def get(self, request: Request, name: str, version: int) -> Any:
        """What probes told at its freeze; held-out samples are named to admins only."""
        return self.found(request, releases_queries.release(name, version))

    @answers(ProbeWorkSerializer, status=202)
    def post(self, request: Request, name: str, version: int) -> Any:
        """Have a release probed that was frozen before there were probes. It asks no model."""
        return services.start(releases_queries.release(name, version), signed_in_account(request))


class BatchProbes(_Probes):
    """Probes of a batch."""

    @answers(ProbesSerializer)
    def get(self, request: Request, pk: int) -> Any:
        """What probes told of a batch when it was last probed."""
        return self.found(request, get_object_or_404(Batch, pk=pk))

    @answers(ProbeWorkSerializer, status=202)
    def post(self, request: Request, pk: int) -> Any:
        """Have a batch probed by a worker. It asks no model."""
        return services.start(get_object_or_404(Batch, pk=pk), signed_in_account(request))
