"""Log lines as JSON with the request's id, for Django, gunicorn and Celery alike."""

import logging
from typing import Any

import structlog
from structlog.typing import EventDict

SWEEP = "planner.plans_sweep"


class WithoutSweeps(logging.Filter):
    """Keeps the sweep's comings and goings, three lines every few seconds, out of the log; its troubles stay."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.INFO or SWEEP not in record.getMessage()


def without_clients_words(logger: object, method: str, event: EventDict) -> EventDict:
    """A request's line has its method and path: what stands in headers or behind the `?` may be somebody's secret."""
    event.pop("user_agent", None)
    if isinstance(request := event.get("request"), str):
        event["request"] = request.partition("?")[0]
    return event


def logging_config(*, level: str, form: str) -> dict[str, Any]:
    """The `LOGGING` setting: one stream handler; `form` is "json" for collectors or "text" for a terminal."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        without_clients_words,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    renderer = structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=False)
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": shared,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            }
        },
        "handlers": {"stream": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["sweeps"]}},
        "filters": {"sweeps": {"()": WithoutSweeps}},
        "root": {"handlers": ["stream"], "level": "WARNING"},
        "loggers": {
            name: {"handlers": ["stream"], "level": level, "propagate": False}
            for name in ("planner", "hardware", "django_structlog", "celery", "gunicorn.error")
        }
        # A refused request has its line with its status already; here only what ended in a 500 is told, with its trace.
        | {"django.request": {"handlers": ["stream"], "level": "ERROR", "propagate": False}},
    }
