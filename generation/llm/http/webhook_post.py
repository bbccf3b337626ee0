"""One POST to an address of somebody else that is no model: a webhook."""

import asyncio
from collections.abc import Mapping

from generation.llm.errors import LLMError
from generation.llm.http.access import Access, check_address
from generation.llm.http.failures import client_failures, file_error, named_error

TIMEOUT = 10.0  # seconds, for all of it
MAX_REPLY = 2**16  # bytes; more is an error


def post(url: str, body: bytes, headers: Mapping[str, str], secret: str, access: Access) -> int:
    """Post to an allowed address, without following redirects; returns the status, which is 2xx.

    `secret` is removed from what an error quotes. Raises LLMError, NotAllowed among others.
    """
    check_address(url)
    access.check_url(url)
    return asyncio.run(_post(url, body, headers, secret, access))


async def _post(url: str, body: bytes, headers: Mapping[str, str], secret: str, access: Access) -> int:
    from generation.llm.http.transport import Transport  # takes half a second to import

    failure: LLMError
    try:
        async with asyncio.timeout(TIMEOUT), Transport(access) as transport:
            response = await transport.open(
                "POST", url, data=body, headers=dict(headers), seconds=TIMEOUT, limit=MAX_REPLY
            )
            try:
                if response.is_success:
                    return response.status_code
                failure = file_error(response, await response.text(), secret)
            finally:
                response.close()
    except client_failures() as error:
        failure = named_error(error, secret, TIMEOUT)
    raise failure
