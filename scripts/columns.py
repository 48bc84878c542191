#!/usr/bin/env python3
"""Prose up to column 100, code and its comments up to 120.

Prose is what stands in *.md but for tables, code and headings. In code, lines stay that can't be
shorter: a table's in a comment, and those with an address or a piece of more than 80 characters. Says each line
that is too long; the status is 1 if there is one. --fix wraps anew, at column 100, each paragraph
that has such a line, in *.md and in comments; --fix=100 those comments too that have a line beyond
that column. Other arguments are files, as git names them: '*.md'; none: all.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

PROSE, CODE = 100, 120
WHOLE = 80
# Copies of what was published once.
FROZEN = "native/capi/tests/abi/"
SLASHES = re.compile(r"(\s*(?:///|//!|//)(?: |$))(.*)")
HASH = re.compile(r"(\s*#(?: |$))(.*)")
STAR = re.compile(r"(\s*\*(?: |$))(.*)")
QUOTES = '"""'
COMMENTS = {
    **dict.fromkeys((".rs", ".java", ".scala", ".gradle", ".cc", ".cpp", ".hpp", ".c", ".h"), (SLASHES, STAR)),
    **dict.fromkeys((".py", ".sh", ".toml", "Makefile"), (HASH,)),
}
ITEM = re.compile(r"(\s*)([-*+]|\d+\.)(\s+)")


def tracked(which):
    names = subprocess.run(["git", "ls-files", *which], check=True, capture_output=True, text=True).stdout
    paths = [pathlib.Path(name) for name in names.splitlines() if not name.startswith(FROZEN)]
    return [path for path in paths if path.is_file() and (path.suffix == ".md" or kind(path) in COMMENTS)]


def kind(path):
    return path.suffix or path.name


def blocks(lines):
    """The lines in groups, each with whether it is prose: one paragraph or item."""
    group, is_fenced = [], False
    for line in lines:
        starts = line.lstrip()
        is_fence = starts.startswith("```")
        verbatim = is_fenced or is_fence or starts.startswith(("|", "#", "![", ">", "<", "@"))
        verbatim = verbatim or starts == QUOTES or (not group and line.startswith("    ") and not ITEM.match(line))
        is_fenced ^= is_fence
        if group and (verbatim or not starts or ITEM.match(line)):
            yield True, group
            group = []
        if verbatim or not starts:
            yield False, [line]
        else:
            group.append(line)
    if group:
        yield True, group


def wrapped(lines, width):
    """A paragraph or an item of a list, anew."""
    item = ITEM.match(lines[0])
    first = item.group(0) if item else re.match(r"\s*", lines[0]).group(0)
    rest = " " * len(first) if item else first
    words = " ".join([lines[0][len(first) :].strip(), *(line.strip() for line in lines[1:])])
    # What would mean something else at the beginning of a line stays behind the word before it.
    words = re.sub(r" (?=(?:[-*+|>#]|#+|\d+\.)(?: |$))", "\0", words)
    # So does what formatters of Rust take for code: a piece between backticks isn't torn apart.
    words = re.sub(r"`[^`]*`", lambda code: code.group(0).replace(" ", "\0"), words)
    new = textwrap.wrap(
        words,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in new]


def fixed_text(lines, longest, width):
    """Prose, of which paragraphs with a line beyond `longest` are wrapped anew."""
    for is_prose, group in blocks(lines):
        is_too_long = is_prose and any(len(line) > longest for line in group)
        yield from wrapped(group, width) if is_too_long else group


def fixed_comments(lines, forms, longest):
    """Sources, of which comments are treated so."""
    comment, before = [], None
    for line in [*lines, None]:
        match = None
        if line is not None:
            match = next((match for form in forms if (match := form.fullmatch(line))), None)
        prefix = match and match.group(1).rstrip()
        if comment and prefix != before:
            margin = len(before) + 1
            for text in fixed_text(comment, longest - margin, PROSE - margin):
                yield f"{before} {text}".rstrip()
            comment = []
        before = prefix
        if match:
            comment.append(match.group(2))
        elif line is not None:
            yield line


def fixed_docstrings(lines, longest):
    """Python, of which these are treated so; they may end on a line of their text. Other texts stay as they are."""
    inside = []
    for line in lines:
        is_edge = line.count(QUOTES) % 2 == 1
        is_whole = not inside and not is_edge and line.lstrip().startswith(QUOTES)
        if not (inside or is_edge or is_whole):
            yield line
            continue
        inside.append(line)
        if is_whole or (is_edge and len(inside) > 1):
            margin = len(inside[0]) - len(inside[0].lstrip())
            if inside[0].lstrip().startswith(QUOTES):
                text = [line[margin:] for line in inside]
                for line in fixed_text(text, longest - margin, PROSE - margin):
                    yield " " * margin + line if line else line
            else:
                yield from inside
            inside = []
    yield from inside


def fixed(path, text, longest):
    lines = text.splitlines()
    if path.suffix == ".py":
        lines = list(fixed_docstrings(lines, longest))
    if path.suffix == ".md":
        new = fixed_text(lines, PROSE, PROSE)
    else:
        new = fixed_comments(lines, COMMENTS[kind(path)], longest)
    return "\n".join(new) + "\n"


def is_whole(line):
    """Whether a line of code can't be shorter."""
    is_row = line.lstrip(" /!*#").startswith("|")
    return is_row or "://" in line or any(len(piece) > WHOLE for piece in line.split())


def too_long(path, text):
    """Numbers of lines that are too long and could be shorter."""
    lines = text.splitlines()
    if path.suffix == ".md":
        groups = blocks(lines)
        lines = [line if is_prose and " " in line.strip() else "" for is_prose, group in groups for line in group]
        return [number for number, line in enumerate(lines, 1) if len(line) > PROSE]
    return [number for number, line in enumerate(lines, 1) if len(line) > CODE and not is_whole(line)]


def main():
    fix = next((argument for argument in sys.argv[1:] if argument.startswith("--fix")), None)
    longest = int(fix.partition("=")[2] or CODE) if fix else CODE
    found = 0
    for path in tracked([argument for argument in sys.argv[1:] if not argument.startswith("--")]):
        text = path.read_text()
        if fix:
            before, text = text, fixed(path, text, longest)
            if text != before:
                path.write_text(text)
        for number in too_long(path, text):
            found += 1
            print(f"{path}:{number}: longer than column {PROSE if path.suffix == '.md' else CODE}")
    if found:
        print(f"{found} lines are too long; `scripts/columns.py --fix` wraps prose and comments")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
