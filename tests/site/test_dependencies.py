"""What the product imports is declared in `pyproject.toml`."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mhb_site.env import ROOT
from tests.site.test_layout import APPS, product_modules

pytestmark = pytest.mark.plain

# They run beside another tool, which brings its own packages.
ELSEWHERE = {"inspect_task.py", "lm_eval_utils.py", "real_server.py"}


def imported() -> dict[str, str]:
    """Each top-level package that is not our own or Python's -> a module that imports it."""
    found = {}
    for path in product_modules(ROOT):
        if path.name in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            found.update({name.partition(".")[0]: str(path) for name in names})
    ours = {*APPS, *sys.stdlib_module_names}
    return {name: path for name, path in found.items() if name not in ours}


def declared() -> Iterator[str]:
    """The distributions that `pyproject.toml` names, and those of the extras that it asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = [line for lines in project["optional-dependencies"].values() for line in lines]
    for requirement in map(Requirement, (*project["dependencies"], *optional)):
        yield canonicalize_name(requirement.name)
        extras = requirement.extras
        for further in map(Requirement, (requires(requirement.name) or ()) if extras else ()):
            if further.marker and any(
                further.marker.evaluate({"extra": extra}) and not further.marker.evaluate({"extra": ""})
                for extra in extras
            ):
                yield canonicalize_name(further.name)


def test_every_import_is_a_declared_dependency() -> None:
    known, distributions = set(declared()), packages_distributions()
    missing = {
        name: path
        for name, path in imported().items()
        if known.isdisjoint(canonicalize_name(each) for each in distributions.get(name, [name]))
        # Of an extra that is not installed, several share a package, such as opentelemetry-sdk.
        and (name in distributions or not any(each.startswith(f"{name}-") for each in known))
    }
    assert missing == {}
