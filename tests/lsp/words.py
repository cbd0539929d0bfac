"""words.py: keywords and functions of the language are known to the files for editors and to completion."""

import json
import os
import pathlib
import re

from client import Client

ROOT = pathlib.Path(os.environ["ROOT"])


def in_quotes(text):
    return re.findall(r'"([a-z_]+)"', text)


def compiler():
    lexer = (ROOT / "lang/lexer.re").read_text()
    keywords = re.findall(r'^ *"([a-z]+)" +\{ WORD\(', lexer, re.MULTILINE)
    builtins = (ROOT / "lang/builtins.c").read_text()
    table = re.search(r"\} builtins\[\] = \{(.*?)\n\};", builtins, re.DOTALL).group(1)
    names = re.search(r"all\[\] = \{(.*?)\};", builtins, re.DOTALL).group(1)
    assert len(keywords) > 25 and len(in_quotes(names)) > 30, "the sources are written otherwise"
    return set(keywords), set(in_quotes(table)) | set(in_quotes(names))


def textmate():
    grammar = json.loads((ROOT / "docs/editors/vscode/mdl.tmLanguage.json").read_text())
    found = set()

    def walk(node):
        if isinstance(node, dict):
            for pattern in (node.get("match"), node.get("begin")):
                if pattern:
                    re.compile(pattern)
                    for words in re.findall(r"\\b\(([a-z_|]+)\)", pattern):
                        found.update(words.split("|"))
            node = list(node.values())
        for one in node if isinstance(node, list) else []:
            walk(one)

    walk(grammar["patterns"])
    walk(grammar["repository"])
    for include in (one["include"] for one in grammar["patterns"]):
        assert include[1:] in grammar["repository"], include
    return found


def vim():
    text = (ROOT / "docs/editors/vim/syntax/mdl.vim").read_text()
    return {word for line in re.findall(r"^syntax keyword \w+ (.*)$", text, re.MULTILINE) for word in line.split()}


def completion():
    client = Client(os.environ["MDLC"])
    client.initialize()
    client.open("untitled:words", "\n")
    found = {one["label"] for one in client.at("textDocument/completion", "untitled:words", 0, 0)["items"]}
    assert client.end() == 0
    return found


def main():
    keywords, builtins = compiler()
    for where, known in (("mdl.tmLanguage.json", textmate()), ("mdl.vim", vim()), ("completion", completion())):
        missing = (keywords | builtins) - known
        assert not missing, f"{where} lacks {sorted(missing)}"
    # Nor do the files for editors have words that the language lacks.
    types = {"real", "index", "int", "bool"}
    for where, known in (("mdl.tmLanguage.json", textmate()), ("mdl.vim", vim() - {"contained"})):
        surplus = known - keywords - builtins - types
        assert not surplus, f"{where} has {sorted(surplus)}, which the language has not"
    package = json.loads((ROOT / "docs/editors/vscode/package.json").read_text())
    for part in ([package["main"]] + [one["path"] for one in package["contributes"]["grammars"]] +
                 [one["configuration"] for one in package["contributes"]["languages"]]):
        assert (ROOT / "docs/editors/vscode" / part).exists(), part
    json.loads((ROOT / "docs/editors/vscode/language-configuration.json").read_text())


main()
