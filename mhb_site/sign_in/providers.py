"""Providers of identities (OpenID Connect, SAML), as the file of `MHB_SSO_FILE` declares them."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from review.rules.permissions import UserRole

THIS_MACHINE = ("localhost", "127.0.0.1")


class IdentityProvider(BaseModel):
    """One provider. `settings` are allauth's own for its protocol."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["openid_connect", "saml"]
    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,49}$")  # part of addresses
    name: str = Field(min_length=1, max_length=40)  # on the button
    client_id: str = ""
    client_secret: str = Field("", repr=False)
    settings: dict[str, Any] = Field(repr=False)
    groups: str = "groups"  # the claim or attribute that lists a person's groups
    roles: dict[str, UserRole] = {}  # group -> role here, the most important first
    seniors: list[str] = []  # groups whose members are senior physicians; empty: admins mark them here
    role: UserRole | None = None  # of new people in none of these groups; without one they are refused
    link_by_email: bool = False  # a first sign-in takes over the account with the same address
    second_factor: bool = False  # the provider asks for a second factor itself
    verifies_emails: bool = False  # it verifies addresses, but does not say so; SAML has no word for it

    @model_validator(mode="after")
    def _check(self) -> "IdentityProvider":
        if not (self.roles or self.role):
            raise ValueError("needs 'roles' (group: role) or 'role'")
        if self.protocol == "openid_connect" and not (self.client_id and self.settings.get("server_url")):
            raise ValueError("needs 'client_id' and settings.server_url")
        if self.protocol == "openid_connect" and not is_protected(self.settings["server_url"]):
            raise ValueError("settings.server_url must be an address with https: what it answers is trusted")
        idp = self.settings.get("idp")
        if self.protocol == "saml" and not isinstance(idp, dict):
            raise ValueError("needs settings.idp")
        if isinstance(idp, dict) and "metadata_url" in idp and not is_protected(idp["metadata_url"]):
            raise ValueError("settings.idp.metadata_url must be an address with https: what it answers is trusted")
        advanced = self.settings.get("advanced", {})
        if not isinstance(advanced, dict) or not advanced.get("strict", True):
            raise ValueError("settings.advanced.strict must stay on: without it, answers are not checked")
        return self

    @property
    def app(self) -> dict[str, Any]:
        """An entry of allauth's `SOCIALACCOUNT_PROVIDERS[protocol]["APPS"]`."""
        if self.protocol == "openid_connect":
            client, settings = self.client_id, {"oauth_pkce_enabled": True, **self.settings}
        else:
            client = self.id  # by which allauth looks providers of SAML up
            # A hospital's own network has names without a dot, which python3-saml would refuse.
            advanced = {"allow_single_label_domains": True, **self.settings.get("advanced", {})}
            settings = {**self.settings, "advanced": advanced}
        return {
            "provider_id": self.id,
            "name": self.name,
            "client_id": client,
            "secret": self.client_secret,
            "settings": settings,
        }

    def role_of(self, groups: Sequence[str]) -> UserRole | None:
        """The role that these groups give; None if none of them does."""
        for group, role in self.roles.items():
            if group in groups:
                return role
        return None

    def is_senior(self, groups: Sequence[str]) -> bool | None:
        """Whether these groups make a senior physician; None if groups do not decide on that."""
        if self.seniors:
            return any(group in self.seniors for group in groups)
        return None

    def groups_in(self, claims: Mapping[str, Any]) -> list[str]:
        """A person's groups in what the provider told: a list, an object of them, or one name."""
        for part in (claims.get("userinfo"), claims.get("id_token"), claims):
            # An empty list counts: somebody left the last group, whatever an older token says.
            value = None
            if isinstance(part, Mapping):
                value = part.get(self.groups)
            if isinstance(value, str):
                return [value]
            if isinstance(value, Mapping):
                value = [group for group, granted in value.items() if granted is not None and granted is not False]
            if isinstance(value, list):
                return [group for group in value if isinstance(group, str)]
        return []


def is_protected(address: object) -> bool:
    """Whether this is an address at which nobody can answer in the place of its owner."""
    if not isinstance(address, str):
        return False
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:  # half an IPv6 address
        return False
    if parts.scheme == "http":
        return host in THIS_MACHINE
    return parts.scheme == "https" and host != ""


def are_of_two_people(claims: Mapping[str, Any]) -> bool:
    """Whether the ID token is of another person than what the provider told in addition."""
    subjects = {part["sub"] for part in _parts(claims) if "sub" in part}
    return len(subjects) > 1


def names_nobody(claims: Mapping[str, Any], field: str) -> bool:
    """Whether the claim by which a provider tells people apart is neither a text nor a number.

    Of all who have none, a directory may say null.
    """
    named = [part[field] for part in _parts(claims) if field in part]
    return any(not isinstance(value, (str, int)) or isinstance(value, bool) for value in named)


def _parts(claims: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a provider told of a person: the ID token, and what it said in addition."""
    return [part for part in (claims.get("userinfo"), claims.get("id_token")) if isinstance(part, Mapping)]


def is_verified(claims: Mapping[str, Any], *, unless_said: bool) -> bool:
    """Whether a provider says that it verified an address; `unless_said` if it says nothing.

    Some write "false" as a text. SAML has no such claim. Of two addresses, none is verified.
    """
    answers, addresses = [], set()
    for part in _parts(claims):
        if part.get("email"):
            addresses.add(str(part["email"]).casefold())
        if "email_verified" in part:
            answers.append(str(part["email_verified"]).casefold())
    if len(addresses) > 1:
        return False
    if answers:
        return all(answer in ("true", "1") for answer in answers)
    return unless_said


def read_providers(path: str) -> list[IdentityProvider]:
    """Read the file; a text `$NAME` in it is the variable NAME.

    Raises ValueError, without values.
    """
    if not path:
        return []
    try:
        entries = _with_variables(json.loads(Path(path).read_text("utf-8")))
        providers = TypeAdapter(list[IdentityProvider]).validate_python(entries)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not JSON ({error.msg})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} cannot be read (it is not text)") from None
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply") from None
    except ValidationError as error:
        mistake = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, mistake["loc"]))
        raise ValueError(f"{path}, {place or 'the whole'}: {mistake['msg'].removeprefix('Value error, ')}") from None
    if len({provider.id for provider in providers}) < len(providers):
        raise ValueError(f"{path}: two providers have the same id")
    return providers


def _with_variables(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_variables(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_variables(part) for part in value]
    if isinstance(value, str) and value.startswith("$"):
        if value[1:] not in os.environ:
            raise ValueError(f"the variable {value[1:]} is not set")
        return os.environ[value[1:]]
    return value
