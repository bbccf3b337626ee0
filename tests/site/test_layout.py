"""Rules of the layout, each with a test that a violation is found.

`pyproject.toml` has the rules that import-linter can check. The others are here: templates that
follow the arrow, readable lines in templates and documents, class names with one meaning, and
places that ARCHITECTURE.md names.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mhb_site.env import ROOT

pytestmark = pytest.mark.plain

APPS = ("review", "generation", "evaluation", "mhb_site")  # each may include the templates of those before it
TEMPLATE_LINE = 160
DOCUMENT_LINE = 100
TEMPLATE_SENTENCE = 240  # a line with a sentence to translate
# Words of the papers and of the API: a row of the database in one module, and the plain value that
# recipes or protocols see in another; refusals and answers whose names are part of the API. And a
# class that Django finds by its name.
SHARED_CLASS_NAMES = {
    *("Agreement", "Draft", "Finding", "Fingerprint", "Rubric", "Sample"),
    *("Change", "NotAllowed", "OtherBenchmarks", "ReasonSerializer"),
    "DatabaseWrapper",
}
PLACE = re.compile(r"`((?:review|generation|evaluation|mhb_site)/[\w/]+|)(\.\w+|)`")
REFERENCE = re.compile(r"""{%\s*(?:include|extends)\s+["']([\w./-]+)["']""")
LOAD = re.compile(r"{%\s*load\s+([\w\s]+?)\s*%}")


def product_modules(root: Path) -> Iterator[Path]:
    for app in APPS:
        yield from sorted(path for path in (root / app).rglob("*.py") if "migrations" not in path.parts)


def ambiguous_classes(root: Path) -> list[str]:
    """Public classes that are defined twice under one name, outside the benchmarks' folders."""
    places: dict[str, set[str]] = defaultdict(set)
    for path in product_modules(root):
        relative = path.relative_to(root)
        if "benchmarks" in relative.parts or "management" in relative.parts:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in SHARED_CLASS_NAMES:
                places[node.name].add(str(relative))
    return [f"{name}: {sorted(where)}" for name, where in places.items() if len(where) > 1]


def tag_libraries(root: Path) -> dict[str, str]:
    """Return the app of each template tag library."""
    return {path.stem: app for app in APPS for path in (root / app / "templatetags").glob("*.py")}


def templates_against_the_arrow(root: Path) -> list[str]:
    """Templates that include, extend or load something of an app above their own."""
    rank = {app: place for place, app in enumerate(APPS)}
    libraries = tag_libraries(root)
    violations = []
    for app in APPS[:-1]:
        for path in sorted((root / "templates" / app).rglob("*.*")):
            text = path.read_text()
            owners = {name.partition("/")[0]: name for name in REFERENCE.findall(text)}
            owners |= {libraries.get(name, ""): name for names in LOAD.findall(text) for name in names.split()}
            # All apps use the frame of the pages (`base.html`, its tags), which is the site's own.
            violations += [
                f"{path.relative_to(root)}: {name}"
                for owner, name in owners.items()
                if rank.get(owner, 0) > rank[app] and owner != "mhb_site"
            ]
    return violations


def long_template_lines(root: Path) -> list[str]:
    """Lines of templates over 160 characters, or 240 where they have a sentence to translate.

    Only `trimmed` can break such a sentence.
    """
    violations = []
    for path in sorted((root / "templates").rglob("*.html")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > (TEMPLATE_SENTENCE if "translate" in line else TEMPLATE_LINE):
                violations.append(f"{path.relative_to(root)}:{number}: {len(line)}")
    return violations


def long_document_lines(root: Path) -> list[str]:
    """Lines of prose in documents over 100 characters; tables and code may be longer."""
    violations = []
    for path in sorted([*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("mhb_site/benchmarks/*/README.md")]):
        fenced = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            fenced ^= line.startswith("```")
            prose = not fenced and not line.startswith(("|", "    ", "![", "`"))
            if prose and len(line) > DOCUMENT_LINE:
                violations.append(f"{path.relative_to(root)}:{number}: {len(line)}")
    return violations


def missing_places(root: Path) -> list[str]:
    """Places that ARCHITECTURE.md names and the code does not have."""
    violations, module = [], ""
    for place, name in PLACE.findall((root / "ARCHITECTURE.md").read_text()):
        module = place or module
        path = root / f"{module}.py"
        if module.endswith("/"):
            found = (root / module).is_dir()
        else:
            defined = re.compile(rf"^ *(async )?(def|class) {name.removeprefix('.')}\b", re.M)
            found = path.is_file() and (name in ("", ".py") or bool(defined.search(path.read_text())))
        violations += [] if found else [f"{module}{name}"]
    return violations


def translated_at_import(root: Path) -> list[str]:
    """Calls of gettext outside functions: their words stay in the language of the start."""
    violations = []
    for app in APPS:
        for path in sorted((root / app).rglob("*.py")):
            tree = ast.parse(path.read_text())
            for node in _run_at_import(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _gettexts(tree):
                    violations.append(f"{path.relative_to(root)}:{node.lineno}")
    return violations


def _gettexts(tree: ast.Module) -> set[str]:
    """The names under which a module imports functions that translate at once."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation":
            names |= {
                each.asname or each.name for each in node.names if each.name in ("gettext", "ngettext", "pgettext")
            }
    return names


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below this one that run when a module is imported: not the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _run_at_import(child)


RULES = [
    ambiguous_classes,
    templates_against_the_arrow,
    long_template_lines,
    long_document_lines,
    missing_places,
    translated_at_import,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_layout_rule(rule: Callable[[Path], list[str]]) -> None:
    assert rule(ROOT) == []


def write_file(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_each_layout_rule_finds_a_violation(tmp_path: Path) -> None:
    write_file(tmp_path, "review/one.py", "class Line: ...\n")
    write_file(tmp_path, "review/two.py", "class Line: ...\n")
    write_file(tmp_path, "evaluation/templatetags/results.py", "")
    write_file(tmp_path, "templates/generation/a.html", '{% include "evaluation/runs/run.html" %}')
    write_file(tmp_path, "templates/review/b.html", "{% load i18n results %}")
    write_file(tmp_path, "templates/review/c.html", "x" * (TEMPLATE_LINE + 1))
    write_file(tmp_path, "templates/review/d.html", "translate".ljust(TEMPLATE_SENTENCE, "x"))
    write_file(tmp_path, "templates/review/e.html", "translate".ljust(TEMPLATE_SENTENCE + 1, "x"))
    table, code, prose = (
        "| ".ljust(DOCUMENT_LINE + 1, "x"),
        "    ".ljust(DOCUMENT_LINE + 1, "x"),
        "x" * (DOCUMENT_LINE + 1),
    )
    write_file(tmp_path, "docs/long.md", f"{table}\n{code}\n{prose}\n{prose[:-1]}\n```\n{prose}\n```\n")
    assert ambiguous_classes(tmp_path) == ["Line: ['review/one.py', 'review/two.py']"]
    assert templates_against_the_arrow(tmp_path) == [
        "templates/review/b.html: results",
        "templates/generation/a.html: evaluation/runs/run.html",
    ]
    assert long_template_lines(tmp_path) == [
        f"templates/review/c.html:1: {TEMPLATE_LINE + 1}",
        f"templates/review/e.html:1: {TEMPLATE_SENTENCE + 1}",
    ]
    write_file(tmp_path, "review/three.py", "def there() -> None: ...\n")
    write_file(
        tmp_path,
        "ARCHITECTURE.md",
        "`review/three`, `review/three.py`, `review/three.there`, `.gone`, `review/four.there`, `review/five/`, `review/`",
    )
    assert missing_places(tmp_path) == ["review/three.gone", "review/four.there", "review/five/"]
    assert long_document_lines(tmp_path) == [f"docs/long.md:3: {DOCUMENT_LINE + 1}"]


VIOLATIONS = {
    "arrow": ("review/rules/planted.py", "import generation.errors\n"),
    "benchmarks": ("mhb_site/benchmarks/mhb/planted.py", "import mhb_site.benchmarks.medhallu.recipe\n"),
    "rules": ("review/rules/planted.py", "import django\n"),
    "models-door": ("generation/batches/planted.py", "import openai\n"),
    "review-features": ("review/planted.py", ""),  # a module outside every layer
    "generation-features": ("generation/sources/planted.py", "import generation.releases.services\n"),
    "evaluation-features": ("evaluation/runs/planted.py", "import evaluation.reports.queries\n"),
    "layers": ("review/planted/queries.py", "import review.planted.services\n"),
    "edges": ("review/planted/queries.py", "import review.cases.views\n"),
    "cycles": ("review/planted/one.py", "import review.planted.two\n"),
}


@pytest.fixture(scope="module")
def tree_with_violations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("layout")
    for app in APPS:
        shutil.copytree(ROOT / app, root / app, ignore=shutil.ignore_patterns("__pycache__", "locale", "*.md"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for name, (path, text) in VIOLATIONS.items():
        if name != "rules":  # shares its file with the arrow's
            write_file(root, path, text)
    write_file(root, "review/rules/planted.py", VIOLATIONS["arrow"][1] + VIOLATIONS["rules"][1])
    write_file(root, "review/planted/queries.py", VIOLATIONS["layers"][1] + VIOLATIONS["edges"][1])
    for name, text in {"__init__": "", "services": "", "two": "import review.planted.one\n"}.items():
        write_file(root, f"review/planted/{name}.py", text)
    return root


def test_each_import_contract_finds_a_violation(tree_with_violations: Path) -> None:
    """In a tree that violates each contract once, all are reported as broken."""
    program = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run(
        [program, "--no-cache"], cwd=tree_with_violations, capture_output=True, text=True, check=False
    )
    assert result.returncode != 0
    assert f"Contracts: 0 kept, {len(VIOLATIONS)} broken." in result.stdout, result.stdout


def test_starting_up_imports_no_model_client() -> None:
    """They would add a second to the start of every process of the site."""
    program = (
        "import sys, django; django.setup(); from django.urls import get_resolver; get_resolver().url_patterns;"
        "print([name for name in ('openai', 'httpx2', 'aiohttp', 'pyarrow', 'scipy', 'torch') if name in sys.modules])"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "mhb_site.settings"}
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


def test_a_translation_at_import_is_found(tmp_path: Path) -> None:
    code = "from django.utils.translation import gettext as _\nA = {1: _('one')}\n\n\ndef two() -> str:\n    return _('two')\n"
    write_file(tmp_path, "review/labels.py", code)
    assert translated_at_import(tmp_path) == ["review/labels.py:2"]
