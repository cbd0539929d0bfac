"""figures.py: what docs/layouts.md says that commands print is what they print.

    figures.py PAGE EXAMPLES    in a directory with the repository's files; MDL and MDLC in the environment

A block of output belongs to the commands in the block before it, or to `mdlc explain` of the layouts that the block
before it spells out: each of its lines, but `...`, is in a line that they print, and each layout in the examples. Of a
table, each size and percentage in the row of a layout is printed by `mdlc explain` of it, with the settings that the head
of the column names. Lines of files that a reader would write (mine.mdl) and cells with arithmetic are left alone.
"""
import functools
import os
import re
import subprocess
import sys

FIGURE = re.compile(r"\d[\d.]*(?:%| (?:bytes|[KMGT]iB)\b)")


@functools.lru_cache(None)
def printed(command):
    words = command.split()
    words[0] = os.environ[words[0].upper()]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return " \n".join(" ".join(line.split()) for line in done.stdout.splitlines())


def explain(examples, layout, settings=""):
    return printed(f"mdlc explain {examples} --layout {layout} {settings}".strip())


def blocks_of(text):
    """(line, kind, lines) of code blocks and tables, in order."""
    lines, at = text.split("\n"), 0
    while at < len(lines):
        begin = at
        if lines[at].startswith("```"):
            at += 1
            while not lines[at].startswith("```"):
                at += 1
            yield begin + 2, "sh" if lines[begin] == "```sh" else "block", lines[begin + 1 : at]
        elif lines[at].startswith("|"):
            while lines[at].startswith("|"):
                at += 1
            yield begin + 1, "table", lines[begin:at]
            at -= 1
        at += 1


def check_table(line, rows, examples, layouts, wrong):
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    count = 0
    for i, row in enumerate(cells[2:]):
        layout = row[0].split(":")[0].strip("` ")
        for head, cell in zip(cells[0][1:], row[1:]):
            settings = " ".join(re.findall(r"--set \S+=[^`\s]+", head))
            settings = "--set vocab=2" if head == "even stages" else settings
            for figure in FIGURE.findall(cell) if layout in layouts else []:
                count += 1
                if figure not in explain(examples, layout, settings):
                    wrong.append(f"{line + 2 + i}: {layout}, {head}: {figure}")
    return count


def main(page, examples):
    with open(examples, encoding="utf-8") as file:
        legal = " ".join(file.read().split())
    layouts = set(re.findall(r"\blayout (\w+) \{", legal)) | {"single"}
    with open(page, encoding="utf-8") as file:
        text = file.read()
    wrong, commands, count = [], [], 0
    for line, kind, lines in blocks_of(text):
        if kind == "table":
            count += check_table(line, lines, examples, layouts, wrong)
        elif kind == "sh":
            joined = "\n".join(lines).replace("\\\n", " ")
            commands = [one for one in joined.split("\n") if one.split()[0] in ("mdl", "mdlc")]
        elif lines[0].startswith("layout "):
            for one in re.findall(r"layout \w+ \{[^}]*\}", " ".join(" ".join(lines).split())):
                if one not in legal:
                    wrong.append(f"{line}: {examples} lacks {one}")
            commands = [f"mdlc explain {examples} --layout {name}" for name in re.findall(r"layout (\w+)", " ".join(lines))]
        elif not lines[0].startswith("mine.mdl"):
            said = "\n".join(printed(one) for one in commands)
            for i, one in enumerate(lines):
                count += 1
                if one.strip() != "..." and " ".join(one.split()) not in said:
                    wrong.append(f"{line + i}: {one}")
    for one in wrong:
        print(f"{page}:{one}")
    print(f"{count} lines and figures, {len(wrong)} are not printed")
    return len(wrong) > 0 or count < 100


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
