"""Sign-in through real providers of identities, in a browser (`make sso` installs them)."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from bench import servers
from mhb_site.server import children
from tests.processes import HOST, ROOT, Site, running_site

pytestmark = [pytest.mark.browser, pytest.mark.processes]

TOOLS = ROOT / ".sso"
HERE = Path(__file__).parent / "sso"
ROLES = {"mhb-admins": "admin", "mhb-physicians": "physician"}
ANA = {"given_name": "Ana", "family_name": "Lima", "preferred_username": "ana.lima", "email": "ana@hospital.example"}


class Provider:
    """A running provider, and the file of people that it reads at each sign-in."""

    def __init__(self, folder: Path, protocol: str) -> None:
        self.people = folder / "people.json"
        self.protocol = protocol
        self.port = servers.free_port()
        self.folder = folder

    def put_in(self, *groups: str) -> None:
        """Give Ana these groups and no others."""
        people: dict[str, dict[str, object]]
        if self.protocol == "openid_connect":
            people = {"ana": {**ANA, "name": "Ana Lima", "email_verified": True, "groups": groups}}
        else:
            said = {"address" if name == "email" else name: [value] for name, value in ANA.items()}
            people = {"ana": {**said, "groups": list(groups)}}
        self.people.write_text(json.dumps(people))

    def declaration(self) -> dict[str, object]:
        """The provider's entry in the file of MHB_SSO_FILE."""
        common = {
            "protocol": self.protocol,
            "id": "hospital",
            "name": "Hospital",
            "roles": ROLES,
            "verifies_emails": True,
        }
        if self.protocol == "openid_connect":
            settings: dict[str, object] = {"server_url": f"http://localhost:{self.port}"}
            return {**common, "client_id": "mhb", "client_secret": "$OIDC_SECRET", "settings": settings}
        names = {"first_name": "given_name", "last_name": "family_name", "username": "preferred_username"}
        address = f"http://localhost:{self.port}"
        idp = {"entity_id": f"{address}/metadata", "sso_url": f"{address}/sso", "x509cert": self._certificate()}
        settings = {"idp": idp, "attribute_mapping": {**names, "email": "address"}}
        return {**common, "settings": settings}

    def _certificate(self) -> str:
        command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=hospital -keyout key.pem -out cert.pem"
        subprocess.run(command.split(), cwd=self.folder, check=True, capture_output=True)
        return (self.folder / "cert.pem").read_text()

    @contextmanager
    def running(self, site: Site) -> Iterator[None]:
        base = f"{site.url}/accounts/sso"
        port, people = str(self.port), str(self.people)
        if self.protocol == "openid_connect":
            command = ["node", str(HERE / "oidc.mjs"), port, people, f"{base}/oidc/hospital/login/callback/"]
        else:
            metadata = f"{base}/saml/hospital/metadata/"
            command = [str(TOOLS / "bin/python"), str(HERE / "saml.py"), port, people, metadata, str(self.folder)]
        environment = {**os.environ, "NODE_MODULES": str(TOOLS / "node_modules")}
        process = subprocess.Popen(command, env=environment)
        try:
            assert children.wait_for_port(HOST, self.port)
            yield
        finally:
            process.terminate()
            process.wait()


def needed(protocol: str) -> list[str]:
    """What is not installed here."""
    if protocol == "openid_connect":
        found = {"node": shutil.which("node"), "oidc-provider": (TOOLS / "node_modules/oidc-provider").exists()}
    else:
        found = {"xmlsec1": shutil.which("xmlsec1"), "pysaml2": (TOOLS / "bin/python").exists()}
    return [name for name, there in found.items() if not there]


@pytest.fixture(params=["openid_connect", "saml"])
def hospital(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Site, Provider]]:
    if missing := needed(request.param):
        pytest.skip(f"needs {' and '.join(missing)}: make sso")
    provider = Provider(tmp_path, request.param)
    provider.put_in("staff", "mhb-physicians")
    (tmp_path / "sso.json").write_text(json.dumps([provider.declaration()]))
    (tmp_path / "data").mkdir()
    more = {"MHB_SSO_FILE": str(tmp_path / "sso.json"), "OIDC_SECRET": "a-secret-of-mhb"}
    with ExitStack() as stack:
        site = stack.enter_context(running_site("embedded", tmp_path / "data", **more))
        site.start_web_for_browsers()
        stack.enter_context(provider.running(site))
        yield site, provider


def sign_in(browser: Browser, site: Site, protocol: str) -> Page:
    """Sign in as Ana at the provider, in a new browser. Returns the page where that ends."""
    page = browser.new_context(base_url=site.url).new_page()
    page.set_default_timeout(30_000)
    page.goto("/accounts/login/?next=/review/keys/")
    page.get_by_role("link", name="Sign in with Hospital").click()
    if protocol == "openid_connect":
        page.get_by_placeholder("Enter any login").fill("ana")
        page.get_by_placeholder("and password").fill("any")
    else:
        page.get_by_label("Name").fill("ana")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url(f"{site.url}/**")
    page.wait_for_load_state()
    if shots := os.environ.get("MHB_SHOTS"):
        page.screenshot(path=f"{shots}/sso-{protocol}-{len(os.listdir(shots))}.png")
    return page


def account(site: Site) -> list[tuple[object, ...]]:
    rows = site.sql("SELECT username, first_name, last_name, email, role, is_active, password FROM review_user")
    return [(*row[:5], bool(row[5]), row[6].startswith("!")) for row in rows]


def test_a_role_follows_the_groups_of_the_provider(hospital: tuple[Site, Provider], browser: Browser) -> None:
    site, provider = hospital
    page = sign_in(browser, site, provider.protocol)
    assert page.url == f"{site.url}/review/keys/"
    ana = ("ana.lima", "Ana", "Lima", "ana@hospital.example")
    assert account(site) == [(*ana, "physician", True, True)]

    provider.put_in("mhb-physicians", "mhb-admins")  # the first that the file names counts
    admin = sign_in(browser, site, provider.protocol)
    assert account(site) == [(*ana, "admin", True, True)]
    admin.goto("/review/overview/")
    expect(admin.get_by_role("heading", level=1)).not_to_have_text("The action failed")
    page.goto("/review/keys/")  # the session of the former role
    assert "/accounts/login/" in page.url

    provider.put_in("staff")
    refused = sign_in(browser, site, provider.protocol)
    expect(refused.get_by_text("that gives you no access here")).to_be_visible()
    assert account(site) == [(*ana, "admin", False, True)]
    admin.goto("/review/overview/")
    assert "/accounts/login/" in admin.url

    provider.put_in("mhb-physicians")
    sign_in(browser, site, provider.protocol)
    assert account(site) == [(*ana, "physician", True, True)]
    assert site.manage("verify_audit").returncode == 0
    # Neither what the provider told nor its tokens are kept.
    assert site.sql("SELECT extra_data FROM socialaccount_socialaccount") == [("{}",)]
    assert site.number("SELECT count(*) FROM socialaccount_socialtoken") == 0
