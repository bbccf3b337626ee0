"""Every regular expression of the product, tried on strings that make bad ones go quadratic.

Run as a program, in a process of its own: it imports every module, and a pattern that hangs is
interrupted by a timer for processor time and printed by name.
"""

import ast
import importlib
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import django

ROOT = Path(__file__).parent.parent
FOLDERS = ("review", "generation", "evaluation", "mhb_site", "bench")
CHARACTERS = 30_000  # quadratic work on as many takes seconds, linear work milliseconds
SECONDS = 0.2  # of processor time
METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split")
FILLERS = (
    "\n", " ", "\t", "\n \n ", "\r\n", " \n", "\u3000", "a", "A", "é", "中", "0", "1.", "a.", "a. ", "a b ", "a-", "a'",
    '"', "'", "\\", "{", "}", "[", "]", "(", ")", "<", ">", "<<<", ">>>", ">>>\n", "<think>", "</think>", "<|", "|", "*",
    "**", "_", "`", "```\n", "#", "-", "--", "- ", ":", "：", "@", "@a", "//", "\\u", "\\'", "% ", "&", "yes ", "no, ",
    "[0", "1,", ".", "a-1", "1中", "a1*",
    "http://", "a@", "10.1234/", ". \n", "?\n\n",
    "\u0301", "a\u0301", "क\u094d", "ก", "ア", "🇫", "👩\u200d", "\u1112\u1161", "\u0600",
)  # fmt: skip


# Examples of the patterns that are built from local values, by the function that builds them; or
# what holds them in its module.
BY_HAND: dict[str, tuple[str, ...] | str] = {
    "generation/trials/findings.py:of_refusal": "_OF_REFUSAL.values()",
    "mhb_site/benchmarks/medhallu/simulate_generation.py:_pattern": (
        r"Halving (\w+) doses is (plainly|rarely) wrong\.$",
    ),
    "review/forms/editor.py:_posted_rows": (r"q\.([0-9]{1,3})\.key",),
    "review/answers/posted_answers.py:_row_numbers": (r"rubric\.([1-9][0-9]{0,3})\.\w+",),
    "review/templatetags/reading.py:finds": ("(fever|dose|mg)",),
    "review/discussion/remarks.py:_mentioned_users": (r"(?<![A-Za-z0-9_@])@(anna|a\.b)(?![.+@-]*[A-Za-z0-9_])",),
}


class Expression(NamedTuple):
    """A pattern, where it is written, and the methods by which it is used."""

    place: str
    pattern: str
    flags: int
    methods: frozenset[str]
    engine: Any = re  # or regex


class Unknown(Exception):
    """A pattern that is built from local values, so that it has to be listed by hand."""


def modules() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every Python file of the product with its globals, without tests and migrations."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            if "migrations" in name or name.startswith("mhb_site.server.gunicorn"):
                continue
            try:
                yield file, vars(importlib.import_module(name))
            except ImportError:  # a program that is shipped with a release, for a tool not installed here
                yield file, {"re": re}


def expressions(by_hand: dict[str, tuple[str, ...] | str]) -> list[Expression]:
    """The expressions of the product. `by_hand`: those built from local values, by place."""
    files = list(modules())
    sources = {file: file.read_text() for file, _names in files}
    used: dict[str, set[str]] = {}
    for source in sources.values():
        for name, method in re.findall(r"\b(\w+)\.(\w+)\b", source):
            if method in METHODS:
                used.setdefault(name, set()).add(method)
    found: dict[tuple[str, int, frozenset[str]], Expression] = {}

    unknown: list[str] = []

    def add(place: str, pattern: Any, flags: int, methods: frozenset[str], engine: Any = re) -> None:
        if isinstance(pattern, bytes):
            pattern = pattern.decode()
        found.setdefault((pattern, flags, methods), Expression(place, pattern, flags, methods, engine))

    for file, names in files:
        tree = ast.parse(sources[file])
        owners: dict[ast.AST, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                owners[node.value] = node.targets[0].id
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id in ("re", "regex")):
                continue
            if (method := node.func.attr) not in (*METHODS, "compile"):
                continue
            place = f"{file.relative_to(ROOT)}:{node.lineno}"
            methods = frozenset([method] if method in METHODS else used.get(owners.get(node, "")) or METHODS)
            places = {"match": 2, "fullmatch": 2, "search": 2, "findall": 2, "finditer": 2, "compile": 1}
            extra = node.args[places.get(method, 9) :] + [word.value for word in node.keywords if word.arg == "flags"]
            flags = int(_value(extra[0], names)) if extra else 0
            try:
                add(place, _value(node.args[0], names), flags, methods, names[node.func.value.id])
            except Exception:  # it needs local values
                function = _function_around(tree, node.lineno)
                key = f"{file.relative_to(ROOT)}:{function}"
                if not function:  # what it makes is among the module's globals
                    continue
                if key not in by_hand:
                    unknown.append(f"{place} {key}")
                    continue
                examples = by_hand[key]
                for pattern in eval(examples, dict(names)) if isinstance(examples, str) else examples:
                    add(place, pattern, flags, methods)
        # Whatever else holds compiled patterns: classes, tuples, default values.
        for name, value in list(names.items()):
            for compiled in _patterns_in(value):
                if isinstance(compiled.pattern, str) and str(names.get("__name__", "")).split(".")[0] in FOLDERS:
                    methods = frozenset(used.get(name) or METHODS)
                    if not any(key[0] == compiled.pattern for key in found):
                        add(f"{file.relative_to(ROOT)}:{name}", compiled.pattern, compiled.flags & ~re.UNICODE, methods)
    if unknown:
        raise Unknown("These build a pattern from local values; list examples: " + ", ".join(unknown))
    return list(found.values())


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "<pattern>", "eval"), dict(names))


def _function_around(tree: ast.AST, line: int) -> str:
    inside = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(inside, key=lambda node: node.lineno).name if inside else ""


def _patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _patterns_in(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _patterns_in(item)
    elif isinstance(value, type) and not value.__module__.startswith(("django", "rest_framework")):
        yield from (item for item in vars(value).values() if isinstance(item, re.Pattern))
    elif hasattr(value, "__code__"):
        cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or () if _is_filled(cell)]
        for item in (*cells, *(getattr(value, "__defaults__", None) or ())):
            if isinstance(item, re.Pattern):
                yield item


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


# ------------------------------------------------------------------------------------------ attacks


def attacks(pattern: str, flags: int) -> Iterator[str]:
    """Strings that are long repetitions of what the pattern nearly matches."""
    tree = re._parser.parse(pattern, flags)
    pieces = list(dict.fromkeys(_pieces(tree)))
    for filler in FILLERS:
        yield _grown(filler)
    for prefix, body in pieces:
        if body:
            yield prefix + _grown(body) + "\x01"
        if prefix:
            yield _grown(prefix + body)
            yield _grown(prefix + body * 3 + "\n")
            yield prefix + _grown("\n") + "\x01"
            yield prefix + _grown(" ") + "\x01"


def _grown(piece: str) -> str:
    return (piece * (CHARACTERS // len(piece) + 1))[:CHARACTERS]


def _pieces(tree: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """(an example of what comes before a repetition, an example of its body), for each one."""
    for operation, argument in tree:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _low, high, body = argument
            if high > 20:
                for example in _examples(body):
                    yield before, example
            yield from _pieces(body, before)
        elif name == "SUBPATTERN":
            yield from _pieces(argument[3], before)
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from _pieces(branch, before)
                yield before + _example(branch), ""
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _pieces(argument[1], before)
        elif name == "ATOMIC_GROUP":
            yield from _pieces(argument, before)
        before += _example([(operation, argument)])
        yield before, ""


def _examples(tree: Any) -> set[str]:
    first = _example(tree)
    sets = [argument for operation, argument in tree if str(operation) == "IN"]
    return {first, *(character for argument in sets for character in _members(argument)[:12])} - {""}


def _members(argument: Any) -> list[str]:
    """Some characters of a set."""
    if argument and str(argument[0][0]) == "NEGATE":
        taken = "".join(_members(argument[1:]))
        return [character for character in "a \n.\"'1" if character not in taken][:3]
    members: list[str] = []
    for kind, value in argument:
        match str(kind):
            case "LITERAL":
                members.append(chr(value))
            case "RANGE":
                members.append(chr(value[0]))
            case "CATEGORY":
                members += {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " \n\t", "CATEGORY_WORD": "a_1"}.get(
                    str(value), "." if "NOT_SPACE" in str(value) or "NOT_WORD" in str(value) else "a"
                )
    return members


def _example(tree: Any) -> str:
    """A string that the pattern matches, or nearly."""
    text = ""
    for operation, argument in tree:
        match str(operation):
            case "LITERAL":
                text += chr(argument)
            case "NOT_LITERAL":
                text += "a" if argument != ord("a") else "b"
            case "ANY":
                text += "a"
            case "IN":
                text += (_members(argument) or ["a"])[0]
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                text += _example(argument[2]) * min(max(argument[0], 1), 10)
            case "SUBPATTERN":
                text += _example(argument[3])
            case "BRANCH":
                text += _example(argument[1][0])
            case "ATOMIC_GROUP":
                text += _example(argument)
    return text


# --------------------------------------------------------------------------------------------- main


class Slow(Exception):
    """A pattern needed more processor time than linear work takes."""


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise Slow


def slow_on(expression: Expression, texts: Iterator[str]) -> str:
    """The beginning of the text on which the pattern is slow; '' if there is none."""
    compiled = expression.engine.compile(expression.pattern, expression.flags)
    scans = expression.methods - {"match", "fullmatch"}
    signal.signal(signal.SIGVTALRM, _interrupt)
    for text in dict.fromkeys(texts):
        try:
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
                for method in expression.methods & {"match", "fullmatch"}:
                    getattr(compiled, method)(text)
                if scans:
                    for _match in compiled.finditer(text):
                        pass
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except Slow:
            return repr(text[:40])
    return ""


def main(given: list[str]) -> None:
    """Try the given patterns, or all of the product; print the slow ones."""
    django.setup()
    every = expressions(BY_HAND) if not given else [Expression("given", one, 0, frozenset(METHODS)) for one in given]
    slow = 0
    for expression in every:
        texts = attacks(expression.pattern, expression.flags) if expression.engine is re else map(_grown, FILLERS)
        if text := slow_on(expression, texts):
            slow += 1
            sys.stdout.write(f"{expression.place}: {expression.pattern[:80]!r} on {text}\n")
    sys.stdout.write(f"{len(every)} expressions, {slow} slow\n")
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
