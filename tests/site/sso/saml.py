"""A SAML identity provider: pysaml2's, with one page that asks who signs in.

python saml.py <port> <file of people: name -> attributes> <address of MHB's metadata> <folder>
"""

import base64
import html
import json
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from saml2 import BINDING_HTTP_REDIRECT
from saml2.config import IdPConfig
from saml2.saml import NAMEID_FORMAT_PERSISTENT, NameID
from saml2.server import Server
from saml2.xmldsig import DIGEST_SHA256, SIG_RSA_SHA256

PORT, PEOPLE, METADATA = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
HERE = Path(sys.argv[4])  # has key.pem and cert.pem
ADDRESS = f"http://localhost:{PORT}"


def identity_provider() -> Server:
    """Made at each sign-in, because the service's metadata can be had only once it is running."""
    with urllib.request.urlopen(METADATA) as response:
        (HERE / "sp.xml").write_bytes(response.read())
    configuration = IdPConfig().load(
        {
            "entityid": f"{ADDRESS}/metadata",
            "key_file": str(HERE / "key.pem"),
            "cert_file": str(HERE / "cert.pem"),
            "xmlsec_binary": "/usr/bin/xmlsec1",
            "metadata": {"local": [str(HERE / "sp.xml")]},
            "service": {
                "idp": {
                    "endpoints": {"single_sign_on_service": [(f"{ADDRESS}/sso", BINDING_HTTP_REDIRECT)]},
                    "signing_algorithm": SIG_RSA_SHA256,
                    "digest_algorithm": DIGEST_SHA256,
                    "sign_response": True,
                    "sign_assertion": True,
                    "policy": {"default": {"attribute_restrictions": None, "lifetime": {"minutes": 5}}},
                }
            },
        }
    )
    return Server(config=configuration)


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        hidden = "".join(
            f'<input type="hidden" name="{name}" value="{html.escape(query.get(name, [""])[0])}">'
            for name in ("SAMLRequest", "RelayState")
        )
        self.answer(
            f'<form method="post">{hidden}<label>Name <input name="who"></label><button>Sign-in</button></form>'
        )

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode(), keep_blank_values=True)
        who = form["who"][0]
        server = identity_provider()
        asked = server.parse_authn_request(form["SAMLRequest"][0], BINDING_HTTP_REDIRECT).message
        response = server.create_authn_response(
            json.loads(PEOPLE.read_text())[who],
            name_id=NameID(format=NAMEID_FORMAT_PERSISTENT, text=who),
            userid=who,
            authn={"class_ref": "urn:oasis:names:tc:SAML:2.0:ac:classes:Password"},
            **server.response_args(asked),
        )
        packed = base64.b64encode(str(response).encode()).decode()
        back = asked.assertion_consumer_service_url
        relay = html.escape(form["RelayState"][0])
        self.answer(
            f'<form method="post" action="{back}"><input type="hidden" name="SAMLResponse" value="{packed}">'
            f'<input type="hidden" name="RelayState" value="{relay}"><button>Continue</button></form>'
        )

    def answer(self, form: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(f"<!doctype html><title>Identity provider</title><h1>Hospital</h1>{form}".encode())


ThreadingHTTPServer(("127.0.0.1", PORT), Pages).serve_forever()
