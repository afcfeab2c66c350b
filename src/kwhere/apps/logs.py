"""Logging, set up once per process: one line per event, to stderr; JSON where a machine reads it."""

import logging
import sys

import structlog


def set_up_logs(level: str = "info", *, as_json: bool | None = None) -> None:
    """Send structured events of `level` and above to stderr. JSON is chosen where stderr is no terminal."""
    machine = not sys.stderr.isatty() if as_json is None else as_json
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if machine
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # the stderr of the moment
        cache_logger_on_first_use=False,
    )
