"""The site in Simplified Chinese: the catalogue is complete, and no page is partly English."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from babel.messages import Catalog
from babel.messages.pofile import read_po
from django.apps import apps
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone, translation
from django.utils.functional import Promise

from evaluation.errors import EvaluationError
from evaluation.models import Judgment, ResultsImport
from evaluation.releases import services as results_services
from generation.batches import launch
from generation.batches import services as batches_services
from generation.batches.launch import BatchSettings
from generation.errors import GenerationError
from generation.models import Batch, Draft, Import, ReleasedSample
from generation.recipes import registry as recipes
from generation.releases import services as releases_services
from generation.sources import importers
from generation.sources.uploads import keep
from review.calibration import queries
from review.calibration import services as calibration_services
from review.errors import ReviewError, ShownError
from review.models import Delivery, Review, Rewording, User, Webhook
from review.rules.questions import Question
from review.rules.state_machine import Policy
from tests.engine import approve_samples, endpoint, evaluate_release, import_file, makers
from tests.engine import models as models
from tests.engine import no_long_waits as no_long_waits
from tests.profile import skip_for
from tests.review.approve import EVIDENCE
from tests.review.factories import PASSWORD, approval, claim, claim_and_submit, correction, open_case

ROOT = Path(settings.BASE_DIR)
PO = ROOT / "mhb_site" / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
PACKAGES = ("mhb_site", "review", "generation", "evaluation")
HAN = re.compile(r"[\u4e00-\u9fff]")
# Messages that are the same in Chinese: names, and messages that are only numbers.
SAME = {"MHB", "API", "F1", "DOI", "PMID", "Tokens", "%(done)s of %(total)s", "“%(passage)s”", ": "}
SAME |= {"%(n)s of %(count)s", "p (Holm)"}
# Names of data sets and of ClinHallu's replacements.
SAME |= {
    f"{name}, Rep-{stages}"
    for name in ("VQA-RAD", "PathVQA", "MedFrameQA", "MedXpertQA")
    for stages in ("V", "K", "VK")
}


def catalogue(path: Path = PO) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale="zh_Hans", abort_invalid=True)


Key = tuple[str, str]  # context, msgid (of a plural: the singular)


def forms(text: str | Sequence[str] | None) -> list[str]:
    """Return singular and plural of a message, or its only form."""
    return [text] if isinstance(text, str) else list(text or ())


def translations(messages_of: Catalog) -> dict[Key, str]:
    """Return the translation of each message, by context and msgid."""
    messages = [message for message in messages_of if message.id]
    return {(message.context or "", forms(message.id)[0]): forms(message.string)[0] for message in messages}


KNOWN = translations(catalogue())


# ------------------------------------------------------------------------------- the catalogue


@pytest.mark.plain
def test_the_catalogue_is_complete() -> None:
    chinese = catalogue()
    assert not chinese.fuzzy, "a catalogue marked as fuzzy is not compiled"
    assert str(chinese.locale) == "zh_Hans"
    assert chinese.num_plurals == 1
    assert [message.id for message in chinese if message.fuzzy and message.id] == []
    untranslated = [msgid for (_, msgid), text in KNOWN.items() if not HAN.search(text) and msgid not in SAME]
    assert untranslated == []


@pytest.mark.plain
def test_placeholders_and_markup_survive_translation() -> None:
    markup = re.compile(r"%\(\w+\)[sd]|%%|</?\w+[^>]*>|\{\w*\}")
    pairs = [(forms(message.id)[-1], forms(message.string)[0]) for message in catalogue() if message.id]
    assert [pair for pair in pairs if sorted(markup.findall(pair[0])) != sorted(markup.findall(pair[1]))] == []


def test_the_compiled_catalogue_is_up_to_date() -> None:
    """`make` compiles the catalogue; a stale file would hide newer translations."""
    with translation.override("zh-hans"):
        compiled = {key: translation.pgettext(*key) if key[0] else translation.gettext(key[1]) for key in KNOWN}
    plural = {("", message.id[0]) for message in catalogue() if isinstance(message.id, tuple)}
    assert {key: text for key, text in compiled.items() if text != KNOWN[key] and key not in plural} == {}


# ------------------------------------------------------- messages that extraction overlooks


def error_classes(base: type[Exception]) -> Iterator[type[Exception]]:
    yield base
    for subclass in base.__subclasses__():
        yield from error_classes(subclass)


@pytest.mark.plain
@pytest.mark.parametrize("base", [ReviewError, GenerationError, EvaluationError])
def test_every_error_message_is_translated(base: type[Exception]) -> None:
    messages = {error.__name__: " ".join((error.__doc__ or "").split()) for error in error_classes(base)}
    assert {name: message for name, message in messages.items() if ("", message) not in KNOWN} == {}
    assert issubclass(base, ShownError)


# Function of gettext -> the positions of context and msgid among its arguments.
MARKERS = {
    **dict.fromkeys(("_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy"), (None, 0)),
    **dict.fromkeys(("pgettext", "pgettext_lazy", "npgettext", "npgettext_lazy"), (0, 1)),
}


def marked_strings(tree: ast.AST) -> Iterator[Key]:
    """Yield all literal strings that a module marks. xgettext overlooks those inside f-strings."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKERS):
            continue
        context, msgid = MARKERS[node.func.id]
        arguments = [node.args[at] if at is not None else ast.Constant("") for at in (context, msgid)]
        literals = [part.value for part in arguments if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if len(literals) == 2:
            yield literals[0], literals[1]


@pytest.mark.plain
def test_every_string_in_the_code_is_translated() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    marked = {key for path in files for key in marked_strings(ast.parse(path.read_text(encoding="utf-8")))}
    assert len(marked) > 200
    assert marked - KNOWN.keys() == set()


@pytest.mark.plain
def test_a_colon_between_two_words_of_a_page_is_the_readers() -> None:
    """Chinese has a wide colon, without a space: `{% colon %}` outside of translated sentences."""
    sentence = re.compile(
        r"\{% blocktranslate\b.*?\{% endblocktranslate %\}|\{% comment %\}.*?\{% endcomment %\}", re.S
    )
    narrow = {}
    for template in sorted((ROOT / "templates").rglob("*.html")):
        text = sentence.sub("", template.read_text())
        if found := re.findall(r"[}%]\}: (?:\{|<).*", text):
            narrow[template.name] = found
    assert narrow == {}


@pytest.mark.plain
def test_every_choice_is_translated() -> None:
    labels = {
        f"{model.__name__}.{field.name}": label
        for model in apps.get_models()
        if model._meta.app_label in PACKAGES
        for field in model._meta.get_fields()
        for _, label in getattr(field, "flatchoices", ())
        if isinstance(label, Promise)
    }
    assert labels
    with translation.override("zh-hans"):
        assert {name: str(label) for name, label in labels.items() if not HAN.search(str(label))} == {}


@pytest.mark.plain
@pytest.mark.parametrize("name", recipes.names())
def test_the_labels_of_a_benchmark_are_translated(name: str) -> None:
    """Cases, launches and reports look its strings up when somebody reads them."""
    recipe, protocol = recipes.recipe(name), recipes.module(name, "protocol").PROTOCOL
    texts = [recipe.label, *(role.label for role in recipe.roles)]
    texts += [protocol.label, *(facet.label for facet in protocol.facets), *protocol.verdicts.values()]
    texts += [text for rate in protocol.rates for text in (rate.label, rate.rule)]
    texts += [label for _first, _second, label in protocol.contrasts]
    texts += [text for term in recipes.built_in_terms(name) for text in (term.label, term.definition)]
    for value in vars(recipes.module(name, "review")).values():
        for question in value if isinstance(value, tuple) else ():
            if isinstance(question, Question):
                texts += [question.label, question.help, *(choice.label for choice in question.choices)]
    assert [text for text in texts if ("", text) not in KNOWN] == []


@pytest.mark.plain
@pytest.mark.parametrize("name", importers.available())
def test_the_restrictions_of_a_licence_are_translated(name: str) -> None:
    restrictions = importers.load(name).restrictions  # none of a file of one's own
    assert not restrictions or ("", restrictions) in KNOWN


@pytest.mark.plain
def test_extraction_finds_nothing_new(tmp_path: Path) -> None:
    """Run `make messages` in a copy of the code."""
    if shutil.which("xgettext") is None:
        skip_for("GNU gettext is not installed")
    ignore = shutil.ignore_patterns("__pycache__", "*.mo")
    for folder in (*PACKAGES, "templates"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignore)
    shutil.copy(ROOT / "manage.py", tmp_path)
    make_line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if " makemessages " in line)
    command = [sys.executable, *shlex.split(make_line)[1:]]
    environment = {**os.environ, "MHB_DATA_DIR": str(tmp_path / "var")}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    extracted = translations(catalogue(tmp_path / PO.relative_to(ROOT)))
    assert extracted.keys() - KNOWN.keys() == set(), "run `make messages` and translate"
    assert ("", "This review has already been submitted.") in extracted, "docstrings of errors are extracted, too"


# ----------------------------------------------------------------------------------- the pages


@pytest.fixture
def chinese() -> Client:
    return Client(headers={"accept-language": "zh-CN,zh;q=0.9"})


@pytest.fixture
def route_arguments(
    models: str, tmp_path: Path, physicians: list[User], ana: User, adela: User
) -> dict[str, dict[str, Any]]:
    """Make a source, samples, a release and a run in Chinese, and a case that Ana holds.

    Returns the arguments of routes, by the first part of their path; those of `review` are
    together.
    """
    rows = [json.loads(line) for line in (ROOT / "mhb_site/demo/conversations.jsonl").read_text().splitlines()]
    chinese_rows = [row for row in rows if HAN.search(row["prompt"][0]["content"])]

    def write_rows(name: str, rows: list[dict[str, Any]]) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    assert approve_samples(import_file(write_rows("first.jsonl", chinese_rows[:2]), "first"), models, physicians)
    release = releases_services.freeze_release("own", benchmark="mhb")
    review = Review.objects.filter(physician=ana).earliest("pk")
    reviewed_case = review.case
    open_case(900, policy=Policy(settle_wording=True), language="en", title="病例")
    claim_and_submit(ana, approval())
    claim_and_submit(physicians[1], approval(), correction("Says it.", change_reason="Clearer.", declaration="wording"))
    calibration = calibration_services.make_item(reviewed_case, queries.suggested_answers(reviewed_case), actor=adela)
    results_services.publish(release, actor=adela)
    run = evaluate_release(release, models, "sim-average")
    source = import_file(write_rows("second.jsonl", chinese_rows[2:4]), "second")
    comparison = launch.launch_comparison(
        BatchSettings(
            benchmark="mhb",
            source=import_file(write_rows("third.jsonl", chinese_rows[2:4]), "third"),
            roles={"generator": endpoint(models)},
            prompts="",
            compare="v1",
            checks=(),
        )
    )
    for batch in comparison.batches.all():
        while batches_services.work_on_batch(batch.pk):
            pass  # on a busy machine a lane ends as the other batch waits for one
    batch = launch.launch_batch(BatchSettings(benchmark="mhb", source=source, roles=makers(models)))
    batches_services.work_on_batch(batch.pk)  # a check stops its drafts: the comparison has samples of the same text
    plan = {"name": "paper", "targets": {"dialogue": {"A1": 2}}, "clusters": {"dialogue": {"A": 2}}}
    Batch.objects.filter(pk=batch.pk).update(plan=plan)
    hook = Webhook.objects.create(
        name="hook", url="http://hooks.example", secret_env="MHB_KEY_HOOK", occasions=["frozen"]
    )
    Delivery.objects.create(webhook=hook, occasion="frozen")
    stopped = Draft.objects.filter(gate=Draft.Gate.STOPPED).earliest("pk")
    held = claim(ana)
    table = keep(SimpleUploadedFile("reports.csv", b"Nr;Text\n1;Ein Fall.\n2;\n"))
    sample = ReleasedSample.objects.earliest("pk").version.sample
    record = source.records.earliest("pk")
    queued = {"file_name": "r.jsonl", "path": "/nowhere/r.jsonl", "study": "s", "created_at": timezone.now()}
    waiting = ResultsImport.objects.create(release=release, **queued)
    return {
        "review": {
            "assignment_id": held.pk,
            "review_id": review.pk,
            "rewording_id": Rewording.objects.latest("pk").pk,
            "case_id": held.case_id,
            "person_id": ana.pk,
            "notice_id": 1,
            "item_id": calibration.pk,
            "benchmark": "mhb",
            "stage": "primary",
            "tool": "argilla",
            "file": "tasks.json",
        },
        "sources": {"name": source.name, "pk": record.pk, "token": table.token},
        "removal": {"kind": "source", "pk": source.pk},
        "webhooks": {"name": "hook"},
        "new-webhook": {},
        "deliveries": {},
        "endpoints": {"name": "sim-judge"},
        "new-endpoint": {},
        "prompts": {"benchmark": "mhb", "name": "default"},
        "playground": {"trial": uuid4()},
        "batches": {"pk": Batch.objects.latest("pk").pk},
        "samples": {"pk": sample.pk},
        "reviews": {"review_id": review.pk},
        "reviewers": {"person_id": review.physician_id},
        "attempts": {},
        "comparisons": {"pk": comparison.pk, "record_id": comparison.source.records.earliest("pk").pk},
        "drafts": {"pk": stopped.pk},
        "imports": {"pk": Import.objects.earliest("pk").pk},
        "result-imports": {"pk": waiting.pk},
        "releases": {
            "name": release.name,
            "version": release.version,
            "format_name": "csv",
            "key": ReleasedSample.objects.earliest("pk").key,
        },
        "runs": {
            "pk": run.pk,
            "judgment_id": Judgment.objects.earliest("pk").pk,
            "key": ReleasedSample.objects.earliest("pk").key,
            "name": "bars-dialogue",
        },
    }


def addresses(route_arguments: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the addresses of all routes of our apps and of allauth's pages that we use, by route.

    The style guide is left out: its examples are English, for developers of templates.
    """
    paths = {name: reverse(name) for name in ("account_login", "account_logout", "account_change_password")}
    paths["public-release"] = reverse("public-release", args=[route_arguments["releases"]["name"]])
    for app in get_resolver().url_patterns:
        if isinstance(app, URLResolver) and app.namespace in PACKAGES:
            for route in app.url_patterns:
                assert isinstance(route, URLPattern)
                arguments = route_arguments["review" if app.namespace == "review" else str(route.pattern).split("/")[0]]
                values = {key: arguments[key] for key in route.pattern.converters}
                paths[f"{app.namespace}:{route.name}"] = reverse(f"{app.namespace}:{route.name}", kwargs=values)
    return paths


class PageTexts(HTMLParser):
    """The texts of a page that must be in the reader's language, including those of attributes.

    Code and data are left out. Data with a language of its own is marked with `lang`; names that
    people or machines chose are in QUOTED.
    """

    VOID = frozenset({"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})
    TEXT_ATTRIBUTES = ("aria-label", "title", "placeholder", "alt", "data-key-label", "data-failed")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []  # tag, whether its content must be translated
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        classes = (attributes.get("class") or "").split()
        ours = not self.open or self.open[-1][1]
        foreign = (
            tag in ("script", "style", "pre", "code", "kbd")
            or "mono" in classes
            or ("lang" in attributes and tag != "html")
        )
        if ours and not foreign:
            self.texts += [attributes[name] or "" for name in self.TEXT_ATTRIBUTES if name in attributes]
        if tag not in self.VOID:
            self.open.append((tag, ours and not foreign))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1][1] and data.strip():
            self.texts.append(data.strip())


PHRASE = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")  # two words of English in a row
WORDS = re.compile(
    r"\b(Account|Answer|Approve|Batch|Batches|Cancel|Case|Cases|Close|Cost|Date|Draft|Endpoint|Error|File|Filter|Freeze|Import"
    r"|Judge|Launch|Menu|Model|Name|Next|Note|Overview|Password|Previous|Question|Reason|Record|Reject|Release|Review|Role"
    r"|Rubric|Run|Sample|Save|Search|Sign|Source|State|Status|Submit|Task|Trap|Version|Workbench"
    r"|approved|finished|queued|rejected|running|submitted|waiting|minutes?|hours?|days?)\b"
)
# Names of data sets, licences, formats and people, and what the physicians of the tests cite.
QUOTED = re.compile(rf"JSON Lines|Internal medicine|{EVIDENCE.reference}|{re.escape(EVIDENCE.passage)}")


def leftovers(page: str) -> list[str]:
    texts = [QUOTED.sub("", text) for text in PageTexts(page).texts]
    return [text for text in texts if PHRASE.search(text) or WORDS.search(text)]


def test_leftover_english_is_found() -> None:
    page = (
        '<html lang="zh-hans"><p>提交</p><p lang="en">Case notes</p><code>Save it</code><p title="Close">{}</p></html>'
    )
    assert leftovers(page.format("")) == ["Close"]
    assert leftovers(page.format("What you type")) == ["Close", "What you type"]


def test_no_page_is_partly_english(
    chinese: Client, route_arguments: dict[str, dict[str, Any]], adela: User, ana: User
) -> None:
    english: list[str] = []
    statuses_of: dict[str, set[int]] = {}
    for user in (None, adela, ana):
        if user is not None:
            chinese.force_login(user)
        for route, address in addresses(route_arguments).items():
            response = chinese.get(address)
            statuses_of.setdefault(route, set()).add(response.status_code)
            if response.status_code < 500 and response["Content-Type"].startswith("text/html") and response.content:
                page = response.content.decode()
                assert response.status_code == 302 or "<html" not in page or '<html lang="zh-hans"' in page
                english += [f"{route} ({user or 'nobody'}, {response.status_code}): {text}" for text in leftovers(page)]
    assert not english, "\n".join(english)
    without_page = {route: statuses for route, statuses in statuses_of.items() if 200 not in statuses}
    unexpected = {
        route: statuses
        for route, statuses in without_page.items()
        if 405 not in statuses and not statuses <= {302, 403, 409}
    }
    del unexpected["generation:batch-analysis"]  # 404: the recipe of the batch has no analysis
    del unexpected["generation:merges"]  # 404: it has no barrier
    del unexpected["review:task-file"]  # 404: there are no cases for other tools
    del unexpected["evaluation:flow-svg"], unexpected["evaluation:flow-csv"]  # 404: its protocol has no contrasts
    assert unexpected == {}


@pytest.mark.parametrize("name", ["sources", "batches", "samples", "endpoints", "releases"])
def test_an_empty_page_is_chinese_too(name: str, chinese: Client, adela: User) -> None:
    chinese.force_login(adela)
    page = chinese.get(reverse(f"generation:{name}"))
    assert page.status_code == 200
    assert leftovers(page.content.decode()) == []


def test_errors_are_shown_in_chinese(chinese: Client, ana: User) -> None:
    chinese.force_login(ana)
    assert "该病例未分配给您。" in chinese.get(reverse("review:case", args=[1])).content.decode()
    response = chinese.get(reverse("api:me"))
    assert response.status_code == 200
    assert chinese.get("/nowhere/").status_code == 404
    assert "页面不存在" in chinese.get("/nowhere/").content.decode()


# ---------------------------------------------------------------------------------- the switch


def test_the_chosen_language_is_remembered(db: None, ana: User) -> None:
    reader = Client(headers={"accept-language": "en"})
    login = reverse("account_login")
    page = reader.get(login).content.decode()
    assert '<html lang="en"' in page
    assert 'value="zh-hans" lang="zh-hans">简体中文</button>' in page

    response = reader.post(reverse("set_language"), {"language": "zh-hans", "next": login})
    assert response["Location"] == login
    page = reader.get(login).content.decode()
    assert '<html lang="zh-hans"' in page
    assert 'value="en" lang="en">English</button>' in page

    reader.post(login, {"login": ana.username, "password": PASSWORD})
    assert "工作台" in reader.get(reverse("review:workbench")).content.decode()
    reader.post(reverse("account_logout"))
    assert "登录" in reader.get(login).content.decode()

    reader.post(reverse("set_language"), {"language": "en", "next": login})
    assert "Sign in" in reader.get(login).content.decode()


def test_the_language_switch_redirects_to_no_other_site(db: None) -> None:
    response = Client().post(reverse("set_language"), {"language": "zh-hans", "next": "https://elsewhere.example/"})
    assert "elsewhere" not in response["Location"]
