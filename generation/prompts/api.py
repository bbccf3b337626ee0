"""The API of prompt sets."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from generation.prompts import queries, services
from review.common.actions import Body, answers
from review.common.api import ShortDictField
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, related
from review.rules import limits
from review.rules.permissions import Can


class PromptSetNameSerializer(serializers.Serializer[Any]):
    """A prompt set as a launch names it, with the SHA-256 of its texts.

    `released`: a set of the benchmark's folder; all others are a team's own, in versions.
    """

    benchmark = serializers.CharField()
    name = serializers.CharField()
    released = serializers.BooleanField()

    sha256 = serializers.CharField(source="digest")
    based_on = serializers.CharField(source="stored.based_on", default="")
    note = serializers.CharField(source="stored.note", default="")
    author = related("stored.author.username")
    at = serializers.DateTimeField(source="stored.at", default=None, allow_null=True)


class PromptSetSerializer(PromptSetNameSerializer):
    """A prompt set with its texts by file."""

    texts = serializers.DictField(child=serializers.CharField())


SAVE_PROMPT_SET_BODY: Fields = {
    "name": serializers.CharField(max_length=40),
    "texts": ShortDictField(
        child=serializers.CharField(max_length=limits.PROMPT, trim_whitespace=False),
        help_text="Files that are not given are those of `based_on`.",
    ),
    "based_on": serializers.CharField(max_length=64, default="", allow_blank=True, help_text="Empty: the default set."),
    "note": serializers.CharField(max_length=500, default="", allow_blank=True),
}


class BenchmarkPrompts(APIView):
    """The prompt sets of a benchmark: the released ones, then a team's own, newest first."""

    can = {"GET": Can.READ_RESULTS, "POST": Can.PRODUCE}

    @answers(PromptSetNameSerializer, many=True, operation_id="prompts_list")
    def get(self, request: Request, benchmark: str) -> Any:
        """List the sets."""
        return queries.sets(benchmark)

    @answers(PromptSetSerializer, body=SAVE_PROMPT_SET_BODY, status=201)
    def post(self, request: Request, body: Body, benchmark: str) -> Any:
        """Save prompts as the next version of a set of your own."""
        saved = services.save(benchmark, **body, actor=signed_in_account(request))
        return queries.shown_set(benchmark, str(saved))


class OnePromptSet(APIView):
    """A prompt set."""

    can = Can.READ_RESULTS

    @answers(PromptSetSerializer, operation_id="prompts_retrieve")
    def get(self, request: Request, benchmark: str, name: str) -> Any:
        """The set with its texts; `default` is the benchmark's usual set."""
        return queries.shown_set(benchmark, name)
