"""Small wrong versions of a module, and whether the tests notice: run as a program, it prints a line of JSON for each.

``mutants.py MODULE COUNT SEED TEST...``. Everything else is imported once; each mutant is a fork in which the module is
compiled from its changed source before anything of holdcourse is imported, and pytest runs the tests until one fails.
A mutant that all tests survive is something that they do not check, or that cannot be told from the right one.
"""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.abc
import importlib.util
import io
import json
import os
import random
import signal
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

SECONDS = 240  # a mutant that runs longer hangs, which is noticed too
HEAVY = ("numpy", "scipy.linalg", "scipy.spatial", "sklearn.gaussian_process", "numba", "pydantic")
HEAVY_SERVICE = ("fastapi", "uvicorn", "httpx")
COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr}


def changes(tree):
    """Every small change of a module, as (line, what, function that makes it in a copy of the tree)."""
    for place, node in enumerate(ast.walk(tree)):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Compare(ops=[op]) if type(op) in COMPARED:
                other = COMPARED[type(op)]
                yield (
                    line,
                    f"{type(op).__name__} to {other.__name__}",
                    place,
                    lambda n, o=other: n.ops.__setitem__(0, o()),
                )
            case ast.BoolOp(op=op):
                other = ast.Or if isinstance(op, ast.And) else ast.And
                yield line, f"{type(op).__name__} to {other.__name__}", place, lambda n, o=other: setattr(n, "op", o())
            case ast.BinOp(op=op) if type(op) in COMPUTED:
                other = COMPUTED[type(op)]
                yield line, f"{type(op).__name__} to {other.__name__}", place, lambda n, o=other: setattr(n, "op", o())
            case ast.Constant(value=bool(value)):
                yield line, f"{value} to {not value}", place, lambda n: setattr(n, "value", not n.value)
            case ast.Constant(value=int(value)):
                yield line, f"{value} to {value + 1}", place, lambda n: setattr(n, "value", n.value + 1)
            case ast.If():
                yield line, "if not", place, lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
            case ast.Raise() | ast.Expr(value=ast.Call()):
                yield line, f"no {ast.unparse(node)[:60]}", place, lambda n: None
            case _:
                pass


def mutated(source, place, change):
    """The source with one change."""
    tree = ast.parse(source)
    node = list(ast.walk(tree))[place]
    if isinstance(node, ast.Raise | ast.Expr):

        class Without(ast.NodeTransformer):
            def visit(self, visited):
                return ast.copy_location(ast.Pass(), visited) if visited is node else super().generic_visit(visited)

        tree = Without().visit(tree)
    else:
        change(node)
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(tree)))


class Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a changed source."""

    def __init__(self, name, source):
        self.name, self.source = name, source

    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def exec_module(self, module):
        exec(compile(self.source, f"<mutant of {self.name}>", "exec"), module.__dict__)


def survives(name, source, tests):
    """Whether all tests pass with this source."""
    child = os.fork()
    if child == 0:
        outcome = 1
        try:
            os.setsid()
            sys.meta_path.insert(0, Loader(name, source))
            import pytest

            options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                outcome = pytest.main([*options, *tests])
        finally:
            os._exit(int(outcome))
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main(name, count, seed, tests):
    import holdcourse  # a table of names; it loads nothing

    path = Path(holdcourse.__file__).parent.joinpath(*name.split(".")[1:]).with_suffix(".py")
    for heavy in HEAVY + (HEAVY_SERVICE if ".service." in name else ()):
        importlib.import_module(heavy)
    source = path.read_text(encoding="utf-8")
    assert survives(name, ast.unparse(ast.parse(source)), tests), "the tests fail without any change"
    found = sorted(changes(ast.parse(source)), key=lambda change: change[2])
    for line, what, place, change in random.Random(seed).sample(found, min(count, len(found))):
        alive = survives(name, mutated(source, place, change), tests)
        print(json.dumps({"line": line, "what": what, "survives": alive}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
