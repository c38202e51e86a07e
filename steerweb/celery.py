"""Celery carries a loop's id to a free worker; what runs and for how long is decided by leases in PostgreSQL (J1)."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "steerweb.settings")


def broker_url(redis_url: str) -> str:
    """kombu's spelling of a Redis URL: `unix:///path` becomes `redis+socket:///path`."""
    return redis_url.replace("unix://", "redis+socket://", 1) if redis_url.startswith("unix://") else redis_url


def make_app() -> Celery:
    from django.conf import settings

    app = Celery("steerweb", broker=broker_url(settings.REDIS_URL))
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=False,  # a redelivered long turn would run twice; leases and the sweep bring lost ones back
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # however long Redis is away, the worker is there when it is back
        broker_transport_options={"socket_timeout": 5, "socket_connect_timeout": 2},
        task_publish_retry=False,  # the offer is only a hint: the sweep offers again, nobody waits for a broker
    )
    app.autodiscover_tasks(["sessions_app.worker"], related_name="app")
    return app


app = make_app()
