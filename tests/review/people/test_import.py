"""Importing accounts from a file: all or none, with file, row and reason of every refusal."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.urls import reverse

from review.audit import verification
from review.errors import NotAllowed, RosterRefused
from review.models import Audit, PersonEvent, User
from review.people import accounts, roster
from review.rules.permissions import OPERATOR
from tests.api.conftest import Api, api
from tests.api.test_problems import problem
from tests.review.factories import account
from tests.review.pages import Browse

__all__ = ["api"]
pytestmark = pytest.mark.django_db

HEADER = "name,role,specialties,languages,institution,hospital,email,senior"
GOOD = f"""{HEADER}
Ana Ruiz,physician,Cardiology; Nephrology,en;ES,North University,North Hospital,Ana.Ruiz@example.org,Yes
李伟,,心内科、肾内科,zh,,West Hospital,li.wei@example.org,no

Sam Okoro,researcher,,,,,,
"""


def refusals(text: str | bytes, file: str = "people.csv") -> list[str]:
    data = text if isinstance(text, bytes) else text.encode()
    return [str(refusal) for refusal in roster.read_roster(file, data).refusals]


def test_a_valid_file_creates_every_account() -> None:
    people = roster.read_roster("people.csv", GOOD.encode())
    assert [entry.row for entry in people.entries] == [2, 3, 5], "rows are numbered as in a spreadsheet"
    assert not User.objects.exists(), "reading stores nothing"
    users = accounts.import_people(people, actor=OPERATOR)
    assert [user.username for user in users] == ["ana.ruiz", "李伟", "sam.okoro"]
    ana = User.objects.get(username="ana.ruiz")
    assert (str(ana), ana.specialties, ana.languages) == ("Ana Ruiz", ["Cardiology", "Nephrology"], ["en", "es"])
    assert (ana.institution, ana.hospital, ana.email) == ("North University", "North Hospital", "ana.ruiz@example.org")
    assert [user.senior for user in users] == [True, False, False]
    assert User.objects.get(username="李伟").specialties == ["心内科", "肾内科"]
    assert not any(user.has_usable_password() for user in users)
    assert list(PersonEvent.objects.order_by("id").values_list("kind", flat=True)) == ["made", "invited"] * 3
    assert list(verification.check(Audit())) == []


def test_account_names_drop_characters_they_cannot_contain() -> None:
    people = roster.read_roster("people.csv", "name\nPat O'Brien\nAnna (Annie) d’Arc\n“Mo” & Sons\n".encode())
    assert not people.refusals
    assert [entry.user.username for entry in people.entries] == ["pat.obrien", "anna.annie.darc", "mo.sons"]
    assert str(people.entries[0].user) == "Pat O'Brien"


def test_a_name_of_one_word_is_kept_beside_a_username() -> None:
    people = roster.read_roster("people.csv", "name,username,specialties\n李伟,li.wei,#N/A\n\ufeffAna,a,\n".encode())
    assert [(str(entry.user), entry.user.username, entry.user.specialty) for entry in people.entries] == [
        ("李伟", "li.wei", ""),
        ("Ana", "a", ""),
    ]


def test_a_csv_file_from_excel_is_read() -> None:
    people = roster.read_roster("people.csv", "\ufeffName;Languages\r\nAna Ruiz;en, es\r\n".encode())
    assert not people.refusals
    assert people.entries[0].user.languages == ["en", "es"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "people.csv: The first row must name the columns"),
        ("name\n", "people.csv: The file contains no people."),
        ("name,pay\nAna,1\n", "people.csv: Unknown column: pay."),
        ("name,name\nAna,Ana\n", "people.csv: A column is named twice."),
        (f"{HEADER}\nAna Ruiz,physician\n", "people.csv, row 2: The row has 2 cells and the header has 8."),
        ("name,role\n ,physician\n", "people.csv, row 2: name: A name is missing."),
        ("name,role\nAna,owner\n", "people.csv, row 2: role: “owner” is not a role."),
        ("name,senior\nAna,perhaps\n", "people.csv, row 2: senior: “perhaps” is neither yes nor no."),
        ("name,languages\nAna,Klingon\n", "people.csv, row 2: languages: Not a language code: klingon"),
        ("name,email\nAna,here\n", "people.csv, row 2: email: "),
        ("name,username\nAna,ana!\n", "people.csv, row 2: username: "),
        (f"name,hospital\nAna,{'x' * 201}\n", "people.csv, row 2: hospital: "),
        (f"name,specialties\nAna,{'x' * 301}\n", "people.csv, row 2: specialties: "),
        (f"name,username\n{'x ' * 80},bo\n", "people.csv, row 2: name: "),
        ("name\nAna\nANA\n", "people.csv, row 3: Row 2 also has the username “ana”."),
        ("name\nTaken\n", "people.csv, row 2: The username “taken” is already taken."),
        (
            "name,email\nAna,t@example.org\n",
            "people.csv, row 2: Another account already uses the e-mail address t@example.org.",
        ),
        ("name,email\nAna,a@x.org\nBo,A@x.org\n", "people.csv, row 3: Row 2 also has the e-mail address a@x.org."),
        ("name\n" + "".join(f"P{n}\n" for n in range(1001)), "people.csv: The file has more than 1000 rows."),
        ("name\n" + "x" * roster.MAX_BYTES, "people.csv: The file is larger than 1 MB."),
        (b"name\nA\x81\n", "people.csv: The file is not UTF-8."),
        ("name,role\n45992,\n", "people.csv, row 2: name: “45992” is not a name."),
        ("name,role\n#REF!,\n", "people.csv, row 2: “#REF!” is an error of a spreadsheet."),
        ("name,role\nTotal: 12 people,\n", "people.csv, row 2: This is a line of totals, not a person."),
        ("name,role\nrole,name\nphysician,Ana\n", "people.csv, row 2: This is not CSV: another header begins here"),
        (b"PK\x03\x04\x14\0\6\0", "people.csv: The file is not UTF-8. Save it as “CSV UTF-8”."),
        (f"name\n{'x' * 151}\n", "people.csv, row 2: name: "),
        ("name\nA\0na\n", "people.csv: The file contains a NUL character."),
        ('name\n"Ana\n', "people.csv, row 2: This is not CSV"),
    ],
)
def test_every_fault_is_reported_with_its_row(text: str | bytes, expected: str) -> None:
    account("taken", email="t@example.org")
    [refusal] = refusals(text)
    assert refusal.startswith(expected)


def test_all_faulty_rows_are_reported_and_nothing_is_stored() -> None:
    people = roster.read_roster("people.csv", b"name,role\nAna,physician\nBo,owner\nCy,boss\n")
    assert [refusal.row for refusal in people.refusals] == [3, 4]
    with pytest.raises(RosterRefused, match=r"people\.csv, row 3"):
        accounts.import_people(people, actor=OPERATOR)
    assert not User.objects.exists()


def test_an_import_that_fails_halfway_is_rolled_back() -> None:
    """The third account is created by somebody else between the check and the import."""
    people = roster.read_roster("people.csv", GOOD.encode())
    account("sam.okoro")
    with pytest.raises(RosterRefused, match="in the meantime"):
        accounts.import_people(people, actor=OPERATOR)
    assert list(User.objects.values_list("username", flat=True)) == ["sam.okoro"]
    assert PersonEvent.objects.count() == 1


def test_only_admins_can_import(ana: User) -> None:
    with pytest.raises(NotAllowed):
        accounts.import_people(roster.read_roster("people.csv", b"name\nBo\n"), actor=ana)


def test_the_page_previews_and_imports_a_file(browse: Browse, adela: User) -> None:
    client, address = browse(adela), reverse("review:people-import")
    assert client.get(address).status_code == 200
    assert client.post(address, {}).status_code == 422

    def upload(text: str) -> Any:
        return client.post(address, {"file": SimpleUploadedFile("people.csv", text.encode())})

    refused = upload("name,role\nAna,owner\n")
    assert refused.status_code == 422
    assert "people.csv, row 2: role: “owner” is not a role." in refused.content.decode()
    preview = upload(GOOD)
    page = preview.content.decode()
    assert "3 accounts will be created" in page
    assert "ana.ruiz" in page
    assert not User.objects.filter(username="ana.ruiz").exists(), "this is only a preview"
    again = {**preview.context["again"], "import": "1"}
    done = client.post(address, again).content.decode()
    for user in User.objects.filter(invited_at__isnull=False):
        assert f"/accounts/invitation/{user.pk}/" in done
    assert "http://testserver/accounts/invitation/" in done
    assert client.post(address, again).status_code == 422, "posted twice, the accounts exist"
    assert User.objects.filter(invited_at__isnull=False).count() == 3


def test_the_api_checks_and_imports_a_file(api: Api, adela: User) -> None:
    client, address = api(adela), reverse("api:person-import")
    dry_run = client.post(address, {"csv": GOOD, "file": "people.csv", "dry_run": True})
    assert dry_run.status_code == 200, dry_run.content
    assert [person["username"] for person in dry_run.json()["people"]] == ["ana.ruiz", "李伟", "sam.okoro"]
    assert (dry_run.json()["added"], "link" in dry_run.json()["people"][0]) == (0, False)
    bad = {"csv": "name,role\nAna,owner\n", "file": "people.csv"}
    assert client.post(address, {**bad, "dry_run": True}).json()["refusals"][0]["row"] == 2
    assert "people.csv, row 2: role" in problem(client.post(address, bad), 422)["detail"]
    result = client.post(address, {"csv": GOOD}).json()
    assert result["added"] == 3
    assert result["people"][0]["link"].startswith("http://testserver/accounts/invitation/")


def run(*words: str) -> tuple[int, str, str]:
    """Run a management command; returns its exit code, output and error output."""
    out, err = StringIO(), StringIO()
    try:
        call_command(*words, stdout=out, stderr=err)
    except SystemExit as exit_:
        return int(str(exit_.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_the_command_imports_a_file(tmp_path: Path, settings: Any) -> None:
    settings.MHB_SITE_URL = "https://mhb.example.org"
    file = tmp_path / "people.csv"
    file.write_text(GOOD)
    code, out, _err = run("import_people", str(file), "--dry-run", "--json")
    assert (code, json.loads(out)["added"], User.objects.count()) == (0, 0, 0)
    code, out, _err = run("import_people", str(file), "--json")
    assert code == 0
    assert [person["row"] for person in json.loads(out)["people"]] == [2, 3, 5]
    assert json.loads(out)["people"][0]["link"].startswith("https://mhb.example.org/accounts/invitation/")
    code, out, err = run("import_people", str(file))
    assert code == 1
    assert "people.csv, row 2: The username “ana.ruiz” is already taken." in err
    assert User.objects.count() == 3
    with pytest.raises(CommandError, match="No such file"):
        run("import_people", str(tmp_path / "none.csv"))


def test_the_command_adds_one_person() -> None:
    _code, out, _err = run("add_person", "Ana Ruiz", "--email", "ana@example.org", "--json")
    person = json.loads(out)
    assert (person["username"], person["role"], "/accounts/invitation/" in person["link"]) == (
        "ana.ruiz",
        "physician",
        True,
    )
    with pytest.raises(CommandError, match="already taken"):
        run("add_person", "Ana Ruiz")
    with pytest.raises(CommandError, match="email"):
        run("add_person", "Bo", "--email", "here")
    assert User.objects.get().email == "ana@example.org"


def test_names_without_letters_get_a_username_and_a_bad_row_hides_no_other() -> None:
    people = roster.read_roster(
        "people.csv", 'name;email;;\n李伟;;;\nمُحَمَّد;;;\n’’;;;\n"x"y;;;\nO’Brien;;;\n;;;\n'.encode("utf-16")
    )
    names = [entry.user.username for entry in people.entries]
    assert names[:2] + names[3:] == ["李伟", "محمد", "obrien"]
    assert names[2].startswith("person-")
    assert [refusal.row for refusal in people.refusals] == [5]


@pytest.mark.plain
@pytest.mark.parametrize(
    ("name", "username"),
    [
        ("Dr. Ana Ruiz", "ana.ruiz"),
        ("Prof. Dr. med. Li Wei", "li.wei"),
        ("Sam Okoro, MD", "sam.okoro"),
        ("Dr Dr", "dr.dr"),
    ],
)
def test_titles_are_left_out_of_usernames(name: str, username: str) -> None:
    made = roster.new_account(name=name)
    assert made.username == username
    assert made.get_full_name() == name


def test_columns_may_have_the_names_that_other_programs_give_them() -> None:
    read = roster.read_roster("people.csv", b"Full name,E-Mail,Specialty,Language\nAna Ruiz,a@example.org,Surgery,en\n")
    [entry] = read.entries
    assert (entry.user.email, entry.user.specialty, entry.user.languages) == ("a@example.org", "Surgery", ["en"])
