"""Accounts are made by admins: nobody signs up."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """allauth's adapter with the registration closed."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False
