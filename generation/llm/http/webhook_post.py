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
    from generation.llm.http.transport import LIMIT, Transport, decode_text  # takes a second to import

    failure: LLMError
    try:
        async with asyncio.timeout(TIMEOUT), Transport(access) as client:
            sent = await client.post(url, content=body, headers=dict(headers), extensions={LIMIT: MAX_REPLY})
        if sent.is_success:
            return sent.status_code
        failure = file_error(sent, decode_text(sent.content, sent.charset_encoding, MAX_REPLY), secret)
    except client_failures() as error:
        failure = named_error(error, secret, TIMEOUT)
    raise failure
