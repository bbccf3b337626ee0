"""The site, which combines the three engines and the benchmarks. No other package imports it."""

from mhb_site.celery import app as celery_app

__all__ = ["celery_app"]
