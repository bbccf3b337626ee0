"""Benchmarks are found by the name of their folder, and errors are explained in one sentence."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from generation import errors
from generation.recipes import registry
from generation.recipes.prompts import read_prompt, read_prompts
from generation.sources.record_kinds import kind_label
from review.common import benchmarks

FOLDER = {
    "__init__.py": "",
    "recipe.py": "from generation.recipes.recipe import Recipe\nRECIPE = Recipe('Toy', frozenset({'toy'}), (), (), None)\n",
    "taxonomy.py": """
TERMS = ()
def facets(task, traps, terms, content):
    return {'trap': traps, 'level': [content['level']]}
""",
}


@pytest.fixture
def toys(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of benchmarks with one folder, which is registered nowhere."""
    for name, text in FOLDER.items():
        (tmp_path / "toy_benchmarks" / "toy").mkdir(parents=True, exist_ok=True)
        (tmp_path / "toy_benchmarks" / "toy" / name).write_text(text)
    (tmp_path / "toy_benchmarks" / "__init__.py").write_text("")
    (tmp_path / "toy_benchmarks" / "helpers.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    settings.MHB_BENCHMARKS = "toy_benchmarks"
    registry.module.cache_clear()
    benchmarks._packages_in.cache_clear()
    yield
    registry.module.cache_clear()
    benchmarks._packages_in.cache_clear()
    for name in [name for name in sys.modules if name.startswith("toy_benchmarks")]:
        del sys.modules[name]


pytestmark = pytest.mark.plain


def test_mhb_is_registered_with_its_roles_and_terms() -> None:
    assert "mhb" in registry.names()
    recipe = registry.recipe("mhb")
    assert [role.name for role in recipe.roles] == ["generator", "checker", "examiner"]
    assert recipe.kinds == {"dialogue", "report"}
    codes = [term.code for term in registry.built_in_terms("mhb")]
    assert len([code for code in codes if len(code) == 1]) == 5
    assert len([code for code in codes if len(code) == 2]) == 14


@pytest.mark.usefixtures("toys")
def test_a_folder_is_a_benchmark() -> None:
    assert registry.names() == ["toy"], "a module beside the folder is no benchmark"
    assert registry.recipe("toy").label == "Toy"
    assert registry.facets("toy", "any", ["x"], (), {"level": "hard"}) == {"trap": ["x"], "level": ["hard"]}


@pytest.mark.parametrize("name", ["mbh", "", "mhb.recipe", "../mhb", "os"])
def test_an_unknown_benchmark_is_refused_with_the_known_names(name: str) -> None:
    with pytest.raises(errors.UnknownBenchmark, match="mhb") as refused:
        registry.recipe(name)
    assert refused.value.status == 404


def test_a_prompt_file_is_read_and_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "toy" / "prompts" / "hello.md"
    path.parent.mkdir(parents=True)
    path.write_text("version: 7\n=== system\nBe brief.\n=== user\nSay $$5 to $name.\n")
    prompt = read_prompt(path)
    assert prompt.label == "toy/hello@7"
    assert [(m.role, m.content) for m in prompt.messages(name="Ana")] == [
        ("system", "Be brief."),
        ("user", "Say $5 to Ana."),
    ]
    with pytest.raises(KeyError):
        prompt.messages()


def test_a_prompt_set_replaces_only_the_files_that_it_has(tmp_path: Path) -> None:
    folder = tmp_path / "toy" / "prompts"
    (folder / "brief").mkdir(parents=True)
    (folder / "notes").mkdir()
    (folder / "hello.md").write_text("version: 7\n=== user\nSay it at length.\n")
    (folder / "bye.md").write_text("version: 1\n=== user\nGo.\n")
    (folder / "brief" / "hello.md").write_text("version: 7\n=== user\nSay it.\n")
    sets = read_prompts(folder, "hello", "bye")
    assert {name: [prompt.label for prompt in some.values()] for name, some in sets.items()} == {
        "": ["toy/hello@7", "toy/bye@1"],
        "brief": ["toy/brief/hello@7", "toy/bye@1"],
    }
    assert sets["own@2"] is sets[""]
    with pytest.raises(KeyError, match="removed"):  # a draft made with other prompts would go unnoticed
        sets["removed"]


@pytest.mark.usefixtures("toys")
def test_an_installed_package_may_offer_a_benchmark(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "guidelines").mkdir(parents=True)
    for name, text in FOLDER.items():
        (tmp_path / "elsewhere" / name).write_text(text)
    (tmp_path / "elsewhere" / "guidelines" / "primary.md").write_text("Read.")
    installed = tmp_path / "elsewhere-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[mhb.benchmarks]\nabroad = elsewhere\n")
    benchmarks._packages_in.cache_clear()
    assert registry.names() == ["abroad", "toy"]
    assert registry.recipe("abroad").label == "Toy"
    assert benchmarks.text("abroad", "guidelines", "primary") == "Read."
    (installed / "entry_points.txt").write_text("[mhb.benchmarks]\ntoy = elsewhere\n")
    benchmarks._packages_in.cache_clear()
    with pytest.raises(ImproperlyConfigured, match="Two benchmarks are called 'toy'"):
        registry.names()


def test_task_labels_belong_to_their_package_of_benchmarks(settings: Any) -> None:
    """A label that was looked up among other benchmarks is not kept for these."""
    package = settings.MHB_BENCHMARKS
    settings.MHB_BENCHMARKS = "tests.toys"
    registry.module.cache_clear()
    assert registry.task_label("qa") == "qa"
    settings.MHB_BENCHMARKS = package
    registry.module.cache_clear()
    assert registry.task_label("qa") == "Question answering"


def test_each_task_and_each_kind_of_records_of_a_benchmark_has_a_label() -> None:
    for benchmark in registry.names():
        tasks = {dataset.task for dataset in registry.module(benchmark, "protocol").PROTOCOL.datasets}
        assert {task for task in tasks if registry.task_label(task) == task} == set(), benchmark
        kinds = registry.recipe(benchmark).kinds
        assert {kind for kind in kinds if kind_label(kind) == kind} == set(), benchmark


@pytest.mark.parametrize(("versions", "fits"), [(0, False), (1, True), (10, True), (11, False), (2.5, False)])
def test_the_number_of_versions_has_a_range(versions: float, fits: bool) -> None:
    if fits:
        assert registry.resolve_settings("mhb", "", {"versions": versions})["versions"] == versions
    else:
        with pytest.raises(errors.WrongSetting, match="versions"):
            registry.resolve_settings("mhb", "", {"versions": versions})
