"""Log lines: readable on a terminal, or JSON if `MHB_LOG_JSON` is set."""

import structlog


def formatter(as_json: bool) -> structlog.stdlib.ProcessorFormatter:
    """The formatter of Django's LOGGING, which passes every log record through structlog."""
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False)
    return structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
        ],
    )
