"""Job controls and failed calls in the API, for every kind of job."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from django.urls import URLPattern, path
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.viewsets import GenericViewSet

from generation.jobs import kinds, life_cycle, queries, services
from generation.jobs.kinds import JobKind
from generation.jobs.serializers import (
    AnyJobSerializer,
    FailedCallSerializer,
    LimitsSerializer,
    job_for,
    requested_limits,
)
from generation.models import Call
from generation.trials import checking
from review.common.actions import Body, answers
from review.common.api import NewestFirst
from review.common.serializers import Fields, WithValues

Values = Callable[[int, object], WithValues]  # a job's key and the reader -> what to show
FAILURE_QUERY: Fields = {"error": serializers.CharField(required=False, max_length=64, help_text="An error class.")}


class JobFailures(GenericViewSet[Call]):
    """Failed calls of a job."""

    kind: ClassVar[JobKind[Any]]
    pagination_class = NewestFirst
    queryset = Call.objects.none()

    @answers(FailedCallSerializer, query=FAILURE_QUERY, paged=True)
    def list(self, request: Request, query: Body, pk: int) -> Any:
        """Failed calls of a job, newest first. Includes calls that succeeded on retry."""
        job = self.kind.get(pk)
        return self.kind.visible_calls(job, queries.failed_calls(job, **query), request.user)


class JobControls(GenericViewSet[Any]):
    """One job and its controls. Each control answers with the updated job."""

    kind: ClassVar[JobKind[Any]]
    values: ClassVar[Values]
    answer: ClassVar[type[Serializer[Any]]]

    def retrieve(self, request: Request, pk: int) -> Response:
        """One job with its progress."""
        return self._answer(pk)

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: int) -> Response:
        """Cancel it. Results so far are kept. 409 if it is over."""
        services.cancel(self.kind.get(pk).pk)
        return self._answer(pk)

    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: int) -> Response:
        """Pause it: no new calls start; calls in progress finish and are kept.

        409 if it is over.
        """
        life_cycle.pause(self.kind.get(pk).pk)
        return self._answer(pk)

    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: int) -> Response:
        """Resume it, and try its endpoints again. 409 if it is over or its budget is spent."""
        services.resume(self.kind.get(pk).pk)
        return self._answer(pk, 202)

    @action(detail=True, methods=["post"])
    def adapt(self, request: Request, pk: int) -> Response:
        """Set its endpoints to what they were found to accept, and resume it.

        409 if no finding of its model check has such a remedy.
        """
        checking.adapt(self.kind.get(pk).pk)
        return self._answer(pk, 202)

    @action(detail=True, methods=["post"])
    def budget(self, request: Request, pk: int) -> Response:
        """Change its budget and pace. If it paused for its budget, it continues.

        409 if it is over.
        """
        life_cycle.change_limits(self.kind.get(pk).pk, **requested_limits(request))
        return self._answer(pk, 202)

    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: int) -> Response:
        """Queue the failed rows again. 409 if it is cancelled."""
        services.retry_failed(self.kind.get(pk).pk)
        return self._answer(pk, 202)

    def _answer(self, pk: int, status: int = 200) -> Response:
        shown = type(self).values(pk, self.request.user)
        return Response(self.answer(shown).data, status=status)


_answers: dict[str, tuple[type[Serializer[Any]], Values]] = {}


def register_answer(kind: str, serializer: type[Serializer[Any]], values: Values) -> None:
    """Set how the API shows jobs of a kind. The default is `AnyJobSerializer`."""
    _answers[kind] = serializer, values


def _views(kind: JobKind[Any]) -> tuple[type[JobControls], type[JobFailures]]:
    answer, values = _answers.get(kind.name, (AnyJobSerializer, partial(job_for, kind)))
    common: dict[str, Any] = {"kind": kind, "can": {"GET": kind.read, "POST": kind.control}}
    attributes = {"answer": answer, "values": staticmethod(values), "queryset": kind.model._default_manager.all()}
    title = kind.name.title()
    controls: type[JobControls] = type(f"{title}Controls", (JobControls,), {**common, **attributes})
    failures: type[JobFailures] = type(f"{title}Failures", (JobFailures,), common)
    changed, continued = (
        extend_schema(request=None, responses=answer),
        extend_schema(request=None, responses={202: answer}),
    )
    documented = extend_schema_view(
        retrieve=extend_schema(responses=answer),
        cancel=changed,
        pause=changed,
        resume=continued,
        adapt=continued,
        budget=extend_schema(request=LimitsSerializer, responses={202: answer}),
        retry=continued,
    )
    return documented(controls), failures


def routes() -> list[URLPattern]:
    """The routes of all kinds of jobs."""
    patterns = []
    for kind in kinds.all_kinds():
        (controls, failures), place = _views(kind), f"{kind.plural}/<int:pk>/"
        patterns.append(path(place, controls.as_view({"get": "retrieve"}), name=kind.name))
        patterns.append(path(f"{place}failures/", failures.as_view({"get": "list"}), name=f"{kind.name}-failures"))
        for control in ("pause", "resume", "adapt", "budget", "cancel", "retry"):
            address = f"{place}{'retry-failed' if control == 'retry' else control}/"
            patterns.append(path(address, controls.as_view({"post": control}), name=f"{kind.name}-{control}"))
    return patterns
