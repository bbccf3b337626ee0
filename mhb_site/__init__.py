"""The site. Nobody imports it; it brings the three engines and the benchmarks together."""

from mhb_site.celery import app as celery_app

__all__ = ["celery_app"]
