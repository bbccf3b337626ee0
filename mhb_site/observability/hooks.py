"""Sentry and OpenTelemetry, where an installation has set them up (extra `observe`)."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from mhb_site.env import WrongEnvironment


def connect() -> None:
    """Start what the environment asks for. Raises WrongEnvironment without the extra."""
    try:
        if settings.ENV.sentry_dsn:
            _connect_sentry(settings.ENV.sentry_dsn)
        if settings.ENV.otel:
            _connect_opentelemetry()
    except ImportError as error:
        raise WrongEnvironment(
            f"Wrong setting. MHB_SENTRY_DSN and MHB_OTEL need the extra 'observe' ({error})."
        ) from error


def _connect_sentry(dsn: str) -> None:
    import sentry_sdk

    # Local variables and bodies hold patients' texts; names of accounts are nobody else's business.
    sentry_sdk.init(
        dsn=dsn,
        send_default_pii=False,
        include_local_variables=False,
        include_source_context=False,
        max_request_body_size="never",
        max_breadcrumbs=0,
        before_send=without_texts,
        release=settings.COMMIT or None,
    )


def without_texts(event: Any, hint: dict[str, Any]) -> Any:
    """Sentry's event with what may be logged of its errors, and without query and cookies."""
    from mhb_site.observability.logs import chain, describe

    event.pop("request", None)
    event.pop("logentry", None)
    event.pop("extra", None)
    values = event.get("exception", {}).get("values", [])
    for value in values:  # there may be more than in the chain: those of a group
        value["value"] = ""
    if exc_info := hint.get("exc_info"):
        messages = [describe(error) for error in reversed(list(chain(exc_info[1])))]
        for value, message in zip(values, messages, strict=False):
            value["value"] = message
    return event


def without_query(span: Any, request: HttpRequest) -> None:
    """Leave the query out of a request's span: people search for words of patients."""
    for name in ("http.url", "http.target", "url.full", "url.query"):
        if name in (span.attributes or {}):
            span.set_attribute(name, request.path)


def _connect_opentelemetry() -> None:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.celery import CeleryInstrumentor
    from opentelemetry.instrumentation.django import DjangoInstrumentor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "mhb"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    DjangoInstrumentor().instrument(request_hook=without_query)
    CeleryInstrumentor().instrument()
