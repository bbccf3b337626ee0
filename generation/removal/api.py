"""The API that archives and deletes sources, records and batches."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from generation.removal import queries, services
from generation.removal.erasure import Erasure
from review.common.actions import Body, answers
from review.common.decorators import signed_in_account
from review.rules.permissions import Can


class RemovalSerializer(serializers.Serializer[Any]):
    """What to archive or delete. `reason`: required to delete; it stays in the audit trail."""

    kind = serializers.ChoiceField(choices=list(queries.MODELS))
    id = serializers.IntegerField(min_value=1)
    action = serializers.ChoiceField(choices=["archive", "restore", "delete"])
    reason = serializers.CharField(default="", allow_blank=True, max_length=500)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["action"] == "delete" and not attrs["reason"].strip():
            raise serializers.ValidationError({"reason": "Give a reason."})
        return attrs


class Removal(APIView):
    """Archive, restore or delete a source, a record or a batch."""

    can = Can.PRODUCE

    @answers(Erasure, body=RemovalSerializer)
    def post(self, request: Request, body: Body) -> Any:
        """Archive something, restore it, or delete it with all that was made of it.

        What is archived stays readable. What is deleted is gone; the audit trail keeps the reason
        and a digest. 409 while something released depends on it.
        """
        kind, pk, actor = body["kind"], body["id"], signed_in_account(request)
        if body["action"] == "archive":
            services.archive(kind, pk, actor=actor)
        elif body["action"] == "restore":
            services.restore(kind, pk, actor=actor)
        else:
            return services.delete(kind, pk, reason=body["reason"], actor=actor)
        return Erasure()
