"""Presets of the endpoint form: what providers' addresses and settings look like."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from generation.common.declared import read_declared


@dataclass(frozen=True, slots=True)
class Provider:
    """What differs at a provider or a server.

    `url`: the pattern of its base URL, with what to replace in <>. `settings`: initial values of
    an endpoint. Names are those of products and not translated.
    """

    name: str
    label: str
    url: str
    key_env: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def initial(self) -> dict[str, Any]:
        """Initial values of the endpoint form."""
        return {"url": self.url, "key_env": self.key_env, **self.settings}


PROVIDERS = read_declared(Provider, __file__, "providers.json")
BY_NAME = {provider.name: provider for provider in PROVIDERS}
