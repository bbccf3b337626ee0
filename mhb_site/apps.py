from importlib.util import find_spec
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.contrib.admin import apps as admin
from django.contrib.admin import autodiscover
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks

from mhb_site.env import WrongEnvironment
from review.common.commands import register


class SiteConfig(AppConfig):
    name = "mhb_site"
    default = True

    def ready(self) -> None:
        import mhb_site.checks  # noqa: F401 -- registers them
        from mhb_site.observability import hooks

        hooks.connect()
        register(self.name, {"control_site": "mhb_site.backup.actions.ControlSite"})
        if any(provider.protocol == "saml" for provider in settings.MHB_PROVIDERS) and not find_spec("onelogin"):
            raise WrongEnvironment("Wrong setting. MHB_SSO_FILE names a SAML provider, which needs the extra 'saml'.")


class BackOfficeConfig(admin.SimpleAdminConfig):
    """Django's admin with the site `review.common.back_office.BackOffice`.

    The apps' admin modules are imported with its addresses, and before it is checked: other
    commands start without them and the services that they import.
    """

    default = False
    default_site = "review.common.back_office.BackOffice"

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_back_office, checks.Tags.admin)


def _check_back_office(**options: Any) -> list[checks.CheckMessage]:
    autodiscover()
    return check_admin_app(**options)
