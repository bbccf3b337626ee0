"""What batch and run, and any other kind of job, have in common in the API: their controls and the calls that failed."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from django.urls import URLPattern, path
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.viewsets import GenericViewSet

from generation import tasks
from generation.jobs import kinds, life_cycle, queries, services
from generation.jobs.kinds import JobKind
from generation.jobs.serializers import (
    AnyJobSerializer,
    BudgetSerializer,
    FailedCallSerializer,
    FailureQuery,
    any_job_values,
    budget_sent,
)
from generation.models import Call
from review.common.api import NewestFirst, asked

Values = Callable[[Any], dict[str, Any]]


class JobFailures(ListAPIView[Call]):
    """The calls of a job that ended in an error, newest first; what healed by trying again is among them."""

    kind: ClassVar[JobKind[Any]]
    serializer_class = FailedCallSerializer
    pagination_class = NewestFirst
    queryset = Call.objects.none()

    def get_queryset(self) -> QuerySet[Call]:
        return queries.failed_calls(self.kind.get(self.kwargs["pk"]), **asked(FailureQuery, self.request))


class JobControls(GenericViewSet[Any]):
    """One job of a kind and what may be done to it; each answers with the job as it is afterwards."""

    kind: ClassVar[JobKind[Any]]
    values: ClassVar[Values]
    answer: ClassVar[type[Serializer[Any]]]

    def retrieve(self, request: Request, pk: int) -> Response:
        """One job with its progress."""
        return self._answer(pk)

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: int) -> Response:
        """Take nothing further of it; what was done stays. One that is over: 409."""
        services.cancel(self.kind.get(pk).pk)
        return self._answer(pk)

    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: int) -> Response:
        """Start no further call of it; what is in flight is kept. One that is over: 409."""
        life_cycle.pause(self.kind.get(pk).pk)
        return self._answer(pk)

    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: int) -> Response:
        """Go on with it, its endpoints included. One that is over, or whose budget is spent: 409."""
        services.resume(self.kind.get(pk).pk)
        return self._going_on(pk)

    @action(detail=True, methods=["post"])
    def budget(self, request: Request, pk: int) -> Response:
        """Give it another budget; one that had paused for want of it goes on. A cancelled one: 409."""
        life_cycle.set_budget(pk, **budget_sent(request, self.kind.get(pk)))
        return self._going_on(pk)

    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: int) -> Response:
        """Queue again what failed. A cancelled one: 409."""
        services.retry_failed(self.kind.get(pk).pk)
        return self._going_on(pk)

    def _going_on(self, pk: int) -> Response:
        transaction.on_commit(partial(tasks.wake, tasks.work_on_job, pk))
        return self._answer(pk, 202)

    def _answer(self, pk: int, status: int = 200) -> Response:
        return Response(self.answer(type(self).values(self.kind.watched(pk))).data, status=status)


_answers: dict[str, tuple[type[Serializer[Any]], Values]] = {}


def answers_with(kind: str, serializer: type[Serializer[Any]], values: Values) -> None:
    """Say how the API shows a job of a kind. One of which nothing is said is shown as any job is."""
    _answers[kind] = serializer, values


def _views(kind: JobKind[Any]) -> tuple[type[JobControls], type[JobFailures]]:
    answer, values = _answers.get(kind.name, (AnyJobSerializer, partial(any_job_values, kind)))
    own: dict[str, Any] = {"kind": kind, "can": {"GET": kind.read, "POST": kind.control}}
    more = {"answer": answer, "values": staticmethod(values), "queryset": kind.model._default_manager.all()}
    title = kind.name.title()
    controls: type[JobControls] = type(f"{title}Controls", (JobControls,), {**own, **more})
    failures: type[JobFailures] = type(f"{title}Failures", (JobFailures,), {**own, "__doc__": JobFailures.__doc__})
    taken, going_on = (
        extend_schema(request=None, responses=answer),
        extend_schema(request=None, responses={202: answer}),
    )
    described = extend_schema_view(
        retrieve=extend_schema(responses=answer),
        cancel=taken,
        pause=taken,
        resume=going_on,
        budget=extend_schema(request=BudgetSerializer, responses={202: answer}),
        retry=going_on,
    )
    return described(controls), extend_schema_view(get=extend_schema(parameters=[FailureQuery]))(failures)


def routes() -> list[URLPattern]:
    """The addresses of every kind's jobs."""
    found = []
    for kind in kinds.every():
        (controls, failures), place = _views(kind), f"{kind.plural}/<int:pk>/"
        found.append(path(place, controls.as_view({"get": "retrieve"}), name=kind.name))
        found.append(path(f"{place}failures/", failures.as_view(), name=f"{kind.name}-failures"))
        for what in ("pause", "resume", "budget", "cancel", "retry"):
            address = f"{place}{'retry-failed' if what == 'retry' else what}/"
            found.append(path(address, controls.as_view({"post": what}), name=f"{kind.name}-{what}"))
    return found
