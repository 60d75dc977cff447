"""The package as a whole: exported names, and an import that does nothing."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from inspect import ismodule
from pathlib import Path

import pytest

import holdcourse as hc

SOURCE = Path(hc.__file__).parent


def python(code):
    """Run code in a fresh interpreter and return what it printed."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_every_exported_name_loads_and_the_list_is_sorted():
    assert hc.__all__ == sorted(hc.__all__)
    for name in hc.__all__:
        assert getattr(hc, name) is not None
    assert dir(hc) == hc.__all__


def test_names_for_type_checkers_are_the_names_at_run_time():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed | {"__version__"} == set(hc.__all__)


def test_no_name_hides_behind_a_module():
    """Importing a submodule sets its name on the package: a function of that name would vanish."""
    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    exported = set(hc.__all__) - set(hc._MODULES)  # no public list tells rooms that are exported from other names
    assert modules.isdisjoint(exported)


def test_the_tree_of_errors_names_all_of_them():
    """All but what a module derives from one of its own, such as the reasons of a refusal."""
    ours = {name for name, kind in vars(hc.errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py")))
    found = re.findall(r"^class (\w+)\((\w+)", text, re.MULTILINE)
    missing = [name for name, base in found if base in ours and not re.search(rf"── {name}\b", hc.errors.__doc__)]
    assert not missing


def test_errors_of_the_library_name_no_options_of_the_command_line():
    """They name parameters, which `holdcourse.cli.wording` turns into options."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.is_relative_to(SOURCE / "cli"):
            continue
        raised = [
            node.exc for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise) and node.exc
        ]
        texts = [part for error in raised for part in ast.walk(error) if isinstance(part, ast.Constant)]
        options = [text for text in texts if isinstance(text.value, str) and re.search(r"(?<!\w)--[a-z]", text.value)]
        found += [f"{path.relative_to(SOURCE)}:{text.lineno}: {text.value}" for text in options]
    assert found == []


def test_arrays_are_converted_as_numpy_1_knows_it_too():
    """numpy before 2.0 refuses copy=None, and its refusal would be taken for one of the values."""
    found = [
        f"{path.relative_to(SOURCE)}:{node.value.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "copy"
        if not isinstance(node.value, ast.Constant) or node.value.value is None
    ]
    assert found == []


def private_names(tree):
    """Private names that a test takes from others: attributes, imports, and what it replaces by name."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of = node.value.id if isinstance(node.value, ast.Name) else ""
            names = [] if of in ("self", "cls", "os") else [node.attr]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdcourse"):
            names = [alias.name for alias in node.names if alias.name != "_numeric"]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            names = [part.value for part in node.args[1:2] if isinstance(part, ast.Constant)]
        else:
            continue
        private = [name for name in names if re.match(r"_[a-z]", str(name)) and name not in own]
        yield from ((node.lineno, name) for name in private if name not in ("_asdict", "_replace", "_fields"))


def test_tests_touch_private_names_only_where_a_comment_says_why():
    """On the line itself or on one of the two above it."""
    found = []
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        lines = path.read_text().splitlines()
        for number, name in private_names(ast.parse("\n".join(lines))):
            if not any("#" in line for line in lines[max(number - 3, 0) : number]):
                found.append(f"{path.name}:{number}: {name}")
    assert found == []


def test_unknown_name():
    with pytest.raises(AttributeError, match="no_such_name"):
        hc.no_such_name  # noqa: B018


def test_import_loads_nothing_but_the_standard_library():
    loaded = json.loads(python("import sys, json; import holdcourse; print(json.dumps(sorted(sys.modules)))"))
    ours = [name for name in loaded if name.startswith("holdcourse")]
    assert ours == ["holdcourse"]
    heavy = {"numpy", "numba", "scipy", "sklearn", "pydantic", "typer", "matplotlib", "pandas", "torch"}
    assert heavy.isdisjoint(loaded)


def test_global_random_state_is_untouched():
    code = """
import numpy as np
np.random.seed(3)
expected = np.random.random()
np.random.seed(3)
import holdcourse as hc
tree = hc.frt_tree(hc.Problem([0.0, 1.0, 2.0]), seed=1)
hc.mirror.descend(tree, hc.mirror.start(tree, 0), [1.0, 2.0, 3.0])
print(np.random.random() == expected)
"""
    assert python(code).strip() == "True"


# What wind and wakes take besides exported names: helpers that know nothing of policies, and what anybody would write.
BESIDES_EXPORTS = {
    "holdcourse.archive": "the folder that reports are written to",
    "holdcourse.checks": "times as people write them",
    "holdcourse.backtest.second_process": "work in a second process",
    "holdcourse.backtest.handover": "what a site's and a plant's policy are handed over with",
    "holdcourse.backtest.pictures": "how pictures look",
    "holdcourse.backtest.verdict": "what judging wind and plants has in common",
    "holdcourse.running.database": "a controller's record given in place of wind is told apart",
    "holdcourse.tables": "text files and times as people write them",
    "holdcourse.tables.text": "the same",
    "holdcourse.tables.times": "the same",
    "holdcourse.units": "prices and powers with their units",
    "holdcourse.tables.spreadsheet": "cells that a spreadsheet does not take for formulas",
    "holdcourse.tables.columns": "the same",
    "holdcourse.tables.numbers": "the same",
    "holdcourse.tables.sources": "the same",
    "holdcourse._numeric.steering": "all of numba lives in one place, also what only wakes needs",
    "holdcourse._numeric.wind_filter": "all of numba lives in one place, also what only wind needs",
    "holdcourse._numeric.wind_replay": "the same",
    "holdcourse._numeric.lockstep": "the same, for many machines at once",
}


def imports_of(path):
    """The modules of ours that a file imports, each with the names it takes; None where it takes the module itself."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if (node.module or "").split(".")[0] == "holdcourse":
                yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "holdcourse")


EXPORTED = {module.__name__: module for module in (getattr(hc, name) for name in hc.__all__) if ismodule(module)}


APPLICATIONS = [path for room in ("wind", "wakes") for path in sorted((SOURCE / room).rglob("*.py"))]


@pytest.mark.parametrize(
    "path", APPLICATIONS, ids=lambda path: "-".join(path.relative_to(SOURCE).with_suffix("").parts)
)
def test_an_application_is_an_outside_user(path):
    """It takes what anybody can take: exported names, its own modules, and the few listed above."""
    room = path.relative_to(SOURCE).parts[0]
    for module, name in imports_of(path):
        if module == "holdcourse":
            assert name is None or name in hc.__all__, f"{name} is not exported"
        elif module.split(".")[1] == room or module == "holdcourse.errors" or module in BESIDES_EXPORTS:
            continue
        else:
            if f"{module}.{name}" in EXPORTED:
                continue
            assert module in EXPORTED, f"{module} is not exported; use holdcourse's own names"
            assert name in EXPORTED[module].__all__, f"{module} does not export {name}"
    used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if _is_of_ours(node)}
    assert used <= set(hc.__all__)


def _is_of_ours(node):
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hc"


def test_docstring_examples():
    """Every example in a docstring runs as printed; those of public names do so in `test_docs.py`."""
    import doctest
    import importlib
    import pkgutil

    elsewhere = {getattr(getattr(hc, name), "__doc__", None) for name in hc.__all__}
    attempted = 0
    for found in pkgutil.walk_packages([str(SOURCE)], "holdcourse."):
        if any(part.startswith("_") or part == "ext" for part in found.name.split(".")):
            continue
        module = importlib.import_module(found.name)
        for example in doctest.DocTestFinder(exclude_empty=True).find(module):
            if example.examples and example.docstring not in elsewhere:
                result = doctest.DocTestRunner().run(example)
                assert result.failed == 0, example.name
                attempted += result.attempted
    assert attempted > 5
