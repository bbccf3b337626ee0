"""The API of probes."""

from typing import Any

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from generation.models import Batch, ProbeWork
from generation.probes import queries, services
from generation.probes.stored import as_shown
from generation.releases import queries as releases_queries
from generation.sources import queries as sources_queries
from review.common.actions import answers
from review.common.decorators import signed_in_account
from review.common.serializers import rows_of
from review.rules.permissions import Can, may_read


class ProbeSerializer(serializers.Serializer[Any]):
    """What one probe tells. `accuracy`: of answers, the mean over right and wrong ones; of options, the share
    answered correctly. `f1`: of the wrong answers. `low`, `high`: 95 % interval, by clusters. `shuffled`: the
    accuracy with shuffled labels. `pairs`: the share of pairs of which it prefers the right answer. `tells`: above
    chance, all probes together. `why`: why there is no number.
    """

    name = serializers.CharField()
    why = serializers.CharField()
    accuracy = serializers.FloatField(allow_null=True)
    f1 = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    shuffled = serializers.FloatField(allow_null=True)
    pairs = serializers.FloatField(allow_null=True)
    n = serializers.IntegerField()
    tells = serializers.BooleanField(allow_null=True)


class ProbeGroupSerializer(serializers.Serializer[Any]):
    """What a probe tells of the cases with one value of a facet."""

    probe = serializers.CharField()
    facet = serializers.CharField()
    value = serializers.CharField()
    why = serializers.CharField()
    accuracy = serializers.FloatField(allow_null=True)
    f1 = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    n = serializers.IntegerField()


class ProbeWordSerializer(serializers.Serializer[Any]):
    """A word that tells. `weight` above 0: it speaks for 'wrong'. `wrong`, `right`: answers with it; `cases`: some."""

    word = serializers.CharField()
    weight = serializers.FloatField()
    wrong = serializers.IntegerField()
    right = serializers.IntegerField()
    cases = serializers.ListField(child=serializers.CharField())


class TellingSampleSerializer(serializers.Serializer[Any]):
    """A case that its words give away; `margin`: how clearly."""

    key = serializers.CharField()
    margin = serializers.FloatField()


ProbeWorkSerializer = rows_of(
    "ProbeWork",
    ProbeWork,
    "id status tried total detail created_at",
    "A probing in progress: `tried` of `total` probes.",
)


class ProbesSerializer(serializers.Serializer[Any]):
    """Whether right and wrong answers of a set can be told apart without being read.

    `tells`: whether any probe tells; null without a number, then `why` is a sentence. `chance`: the accuracy of a
    guess. `left_out`: cases not counted, by reason. `progress`: a probing under way, or null.
    """

    cases = serializers.IntegerField()
    answers = serializers.IntegerField()
    clusters = serializers.IntegerField()
    options = serializers.BooleanField()
    chance = serializers.FloatField(allow_null=True)
    left_out = serializers.DictField(child=serializers.IntegerField())
    why = serializers.CharField()
    strongest = serializers.CharField()
    tells = serializers.BooleanField(allow_null=True)

    probes = ProbeSerializer(many=True)
    groups = ProbeGroupSerializer(many=True)
    words = ProbeWordSerializer(many=True)
    samples = TellingSampleSerializer(many=True)
    progress = ProbeWorkSerializer(allow_null=True)


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
