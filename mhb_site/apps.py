from django.apps import AppConfig


class SiteConfig(AppConfig):
    name = "mhb_site"
