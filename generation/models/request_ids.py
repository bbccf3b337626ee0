"""The id of the request during which something happens, for rows that outlive its log lines."""


def current_request_id() -> str:
    """The id that the access log gave this request, or that a task carries on; else empty."""
    import structlog  # its package brings a renderer of tracebacks, which most commands never need

    return str(structlog.contextvars.get_contextvars().get("request_id", ""))[:100]
