from django.apps import AppConfig
from django.contrib.admin import apps as admin


class SiteConfig(AppConfig):
    name = "mhb_site"
    default = True

    def ready(self) -> None:
        from mhb_site import checks  # noqa: F401 -- registers them
        from mhb_site.observability import hooks
        from mhb_site.sign_in import sso

        hooks.connect()
        sso.check_installed()


class BackOfficeConfig(admin.AdminConfig):
    """Django's admin with the site `review.common.back_office.BackOffice`."""

    default = False
    default_site = "review.common.back_office.BackOffice"
