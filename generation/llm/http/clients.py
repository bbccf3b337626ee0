"""The HTTP clients for an address and a key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generation.llm.http.access import Access

if TYPE_CHECKING:  # takes a second to import, so it is imported late
    import httpx2
    from openai import AsyncOpenAI


@dataclass(frozen=True, slots=True)
class Client:
    """The SDK's client and its transport. `headers` hold the key: never show or store them."""

    sdk: "AsyncOpenAI"
    transport: "httpx2.AsyncClient"
    url: str
    headers: Mapping[str, str] = field(repr=False)


def make_client(url: str, api_key: str, access: Access) -> Client:
    """Create the clients. Close `sdk` when they are no longer needed."""
    from openai import AsyncOpenAI

    from generation.llm.http.transport import Transport

    transport = Transport(access)
    sdk = AsyncOpenAI(base_url=url, api_key=api_key, max_retries=0, http_client=transport)
    # Otherwise taken from OPENAI_ORG_ID and OPENAI_PROJECT_ID and sent to any endpoint.
    sdk.organization = sdk.project = None
    sdk._custom_headers = {}  # from OPENAI_CUSTOM_HEADERS, which may set Authorization
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    return Client(sdk, transport, url.rstrip("/"), headers)
