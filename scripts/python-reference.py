#!/usr/bin/env python3
"""The reference of the Python package in docs/python.md, behind its mark: each public name with its
types and what its docstring says. --check writes nothing; the status is 1 where the file says
something else."""

import ast
import inspect
import pathlib
import re
import textwrap
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE, PAGE = ROOT / "python/rejoin", ROOT / "docs/python.md"
MARK = "<!-- Made by scripts/python-reference.py from here on. -->\n"
MODULES = {
    "rejoin": "__init__",
    "rejoin.spark": "spark",
    "rejoin.xgboost": "xgboost",
    "rejoin.elastic": "elastic",
    "rejoin.torch": "torch",
    "rejoin.pages": "pages",
}
# What is public beside a module's __all__, which imports nothing that isn't needed.
MORE = {"rejoin.spark": ["RejoinEstimator", "Rows"]}
# Classes that the package makes, not its user.
GIVEN = {"Communicator", "Input", "Page", "Rank", "Rows"}
COLUMNS = 100


def parsed(name):
    return ast.parse((PACKAGE / f"{name}.py").read_text())


def public(tree):
    """What a module says to be public."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    raise AssertionError("expected __all__ in every public module")


def definitions():
    """The package's classes and functions, by module and name; and of names that modules import, where from."""
    found = {}
    for path in PACKAGE.glob("*.py"):
        for node in parsed(path.stem).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found[path.stem, node.name] = node
    return found


def resolved(module, name, found):
    """A name of a module, which defines or imports it."""
    if (module, name) in found:
        return found[module, name]
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return resolved(node.module, alias.name, found)
    raise AssertionError(f"{module}.py neither defines nor imports {name}")


class Unquoted(ast.NodeTransformer):
    """Types without the quotes in which some of them stand."""

    def visit_Constant(self, node):
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node


def types(node):
    return ast.unparse(Unquoted().visit(node)) if node is not None else ""


def parameters(given, is_method):
    """Each with its type and default, as it is written."""

    def written(one, default, star=""):
        of_type = f": {types(one.annotation)}" if one.annotation is not None else ""
        return star + one.arg + of_type + (f" = {ast.unparse(default)}" if default is not None else "")

    plain = given.args[is_method:]
    defaults = [None] * (len(plain) - len(given.defaults)) + given.defaults
    parts = [written(*pair) for pair in zip(plain, defaults)]
    if given.vararg is not None:
        parts.append(written(given.vararg, None, "*"))
    elif given.kwonlyargs:
        parts.append("*")
    parts += [written(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults)]
    return parts + ([written(given.kwarg, None, "**")] if given.kwarg is not None else [])


def signature(name, function, is_method):
    """As in a program; a parameter to a line if they don't fit into one."""
    result = f" -> {types(function.returns)}" if function.returns is not None and function.name != "__init__" else ""
    parts = parameters(function.args, is_method)
    line = f"{name}({', '.join(parts)}){result}"
    if len(line) <= COLUMNS:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){result}"])


def prose(text):
    """A docstring as Markdown."""
    if not text:
        return ""
    text = re.sub(r":\w+:`([^`]*)`", r"`\1`", inspect.cleandoc(text)).replace("``", "`")
    blocks = []
    for block in re.split(r"\n\n+", text):
        if block.startswith("    ") and blocks and blocks[-1].startswith("```"):
            blocks[-1] = blocks[-1][: -len("\n```")] + "\n\n" + textwrap.dedent(block) + "\n```"
        elif block.startswith("    "):
            blocks.append(f"```python\n{textwrap.dedent(block)}\n```")
        else:
            blocks.append(block)
    return "\n\n".join(blocks) + "\n"


def entry(code, text):
    return f"```python\n{code}\n```\n\n{prose(text)}"


def has(function, decorator):
    return any(ast.unparse(one).split("(")[0] == decorator for one in function.decorator_list)


def fields(node):
    """Attributes with their types, and what stands behind them."""
    lines = []
    for number, member in enumerate(node.body):
        if isinstance(member, ast.AnnAssign) and not ast.unparse(member.target).startswith("_"):
            behind = node.body[number + 1] if number + 1 < len(node.body) else None
            said = behind.value.value if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant) else ""
            lines.append((f"{ast.unparse(member.target)}: {types(member.annotation)}", said))
        if isinstance(member, ast.Assign) and any(ast.unparse(base) == "enum.IntEnum" for base in node.bases):
            lines.append((f"{ast.unparse(member.targets[0])} = {ast.unparse(member.value)}", ""))
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            for each in ast.walk(member):
                if isinstance(each, ast.AnnAssign) and re.fullmatch(r"self\.[a-z]\w*", ast.unparse(each.target)):
                    lines.append((f"{ast.unparse(each.target)[5:]}: {types(each.annotation)}", ""))
        if isinstance(member, ast.FunctionDef) and has(member, "property") and not member.name.startswith("_"):
            lines.append((f"{member.name}: {types(member.returns)}", ast.get_docstring(member)))
    return lines


def described(name, node):
    """A function or a class, with its public methods."""
    if isinstance(node, ast.FunctionDef):
        return entry(signature(name, node, False), ast.get_docstring(node))
    methods = {member.name: member for member in node.body if isinstance(member, ast.FunctionDef)}
    begin = methods.get("__init__") if node.name not in GIVEN else None
    code = f"class {name}" if begin is None else signature(f"class {name}", begin, True)
    parts = [entry(code, ast.get_docstring(node))]
    known = fields(node)
    if known:
        comments = [
            f"{line}  # {said}" if said and len(f"{line}  # {said}") <= COLUMNS else line for line, said in known
        ]
        parts.append("```python\n" + "\n".join(comments) + "\n```\n")
        longer = [(line, said) for line, said in known if said and len(f"{line}  # {said}") > COLUMNS]
        parts += [f"`{line.partition(':')[0]}`: {prose(said)}" for line, said in longer]
    for method, function in methods.items():
        # What has no docstring is called by others: XGBoost's callbacks.
        if not method.startswith("_") and not has(function, "property") and ast.get_docstring(function):
            of = f"{name}.{method}" if has(function, "classmethod") else f".{method}"
            parts.append(entry(signature(of, function, True), ast.get_docstring(function)))
    return "\n".join(parts)


def reference():
    found = definitions()
    parts = []
    for module, file in MODULES.items():
        parts.append(f"## {module}\n")
        names = [*public(parsed(file)), *MORE.get(module, [])]
        for name in names:
            where = "_spark_rank" if name == "Rows" else file
            parts.append(f"### {module}.{name}\n")
            parts.append(described(f"{module}.{name}", resolved(where, name, found)))
    return "\n".join(parts)


def main():
    before = PAGE.read_text()
    guide, mark, old = before.partition(MARK)
    assert mark, f"expected in {PAGE}: {MARK}"
    new = reference()
    if "--check" in sys.argv:
        if old.split() != new.split():
            print(f"{PAGE.relative_to(ROOT)} isn't what the package says: run scripts/python-reference.py")
            return 1
        return 0
    PAGE.write_text(f"{guide}{mark}\n{new}")
    subprocess.run([ROOT / "scripts/columns.py", "--fix", str(PAGE.relative_to(ROOT))], cwd=ROOT, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
