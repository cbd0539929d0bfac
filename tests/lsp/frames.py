"""frames.py: what is no message, what comes at the wrong time, how it ends, and that nothing is left behind."""

import json
import os
import random
import subprocess
import time

from client import Client

MDLC = os.environ["MDLC"]
TEXT = "model m {\n  axis a = 2;\n  param w: [a];\n  loss = sum(w);\n}\n"
URI = "untitled:one"


def check(condition, *what):
    assert condition, what


def malformed():
    client = Client(MDLC)

    def refused(code, what):
        said = client.receive()
        check(said and said["id"] is None and said["error"]["code"] == code, what, said)

    client.send(b"{\"jsonrpc\": ")
    refused(-32700, "half an object")
    client.send(b"\"\xff\"")
    refused(-32700, "no UTF-8")
    client.send(b"[]")
    refused(-32600, "an array")
    client.send(b"{\"jsonrpc\": \"2.0\", \"method\": 7, \"id\": null}")
    refused(-32600, "a method that is a number")
    client.raw(b"Content-Type: text\r\n\r\n")
    refused(-32700, "no length")
    client.raw(b"Content-Length: many\r\n\r\n")
    refused(-32700, "a length that is none")
    client.raw(b"Content-Length: -5\r\n\r\n")
    refused(-32700, "a negative length")
    client.raw(b"Content-Length: 99999999999999999999999\r\n\r\n")
    refused(-32700, "a length of more than 64 bits")
    client.raw(b"x" * 9000)
    refused(-32600, "an endless header")
    client.raw(b"\r\n\r\n")
    refused(-32700, "its end")
    client.raw(b"Content-Length: 70000000\r\n\r\n")
    refused(-32600, "a huge message")
    for _ in range(70):
        client.raw(b"y" * 1000000)
    check(client.refused("textDocument/hover", {}) == -32002, "it is passed over; initialize has not come")
    client.send(b"[" * 100000)
    refused(-32700, "deep nesting")
    client.notify("textDocument/didOpen", {"textDocument": {"uri": URI, "text": TEXT}})  # ignored
    client.raw(b"Content-Length: 54\n\n{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"initialize\"}    \n ")
    said = client.receive()
    check(said["id"] == "a" and "capabilities" in said["result"], said)
    check(client.refused("initialize", {}) == -32600, "a second time")
    check(client.refused("textDocument/rename", {}) == -32601, "an unknown method")
    check(client.refused("textDocument/hover", {}) == -32602, "no text")
    check(client.refused("textDocument/hover", {"textDocument": {"uri": URI}, "position": {}}) == -32602, "not open")
    client.notify("$/cancelRequest", {"id": 1})
    client.notify("textDocument/didChange", {"textDocument": {"uri": URI}, "contentChanges": 5})
    client.notify("textDocument/didOpen", [])
    client.notify("textDocument/didOpen", {"textDocument": 5})
    client.open(URI, TEXT)
    check(client.diagnostics(URI) == [], "and all that was nothing to it")
    check(client.refused("textDocument/hover", {"textDocument": {"uri": URI}, "position": {"line": -1}}) == -32602, "place")
    check(client.at("textDocument/hover", URI, 10**9, 10**9) is None, "far behind the end")
    client.send({"jsonrpc": "2.0", "id": 77, "result": None})  # an answer to nothing
    # A byte of a message at a time.
    body = json.dumps({"jsonrpc": "2.0", "id": 5000, "method": "shutdown"}).encode()
    for byte in b"Content-Length: %d\r\n\r\n" % len(body) + body:
        client.raw(bytes([byte]))
    check(client.answer(5000)["result"] is None, "shutdown")
    check(client.refused("textDocument/hover", {}) == -32600, "behind shutdown")
    client.notify("exit", None)
    check(client.process.wait(20) == 0, "status")


def ends():
    client = Client(MDLC)
    client.initialize()
    client.notify("exit", None)
    check(client.process.wait(20) == 1, "exit without shutdown")
    client = Client(MDLC)
    client.initialize()
    client.process.stdin.close()
    check(client.process.wait(20) == 1, "the client is gone")


def broken_texts():
    """Texts that are no texts, whatever is asked of them."""
    client = Client(MDLC)
    client.initialize()
    texts = ["", "\0", "model m { x = \0; }", "\ufeffmodel m {", "(" * 5000, "model m { x = " + "(" * 3000, "//" + "x" * 100000,
             "\r\r\n\r", "import \"untitled:one\";", "import \"/\";", "import std.;", "@", "'", "\"", "E022", "𝔘" * 1000,
             "model m { axis a = 99999999999; param w: [a]; loss = sum(w); }",
             "model m { axis a = 2; x = 0; repeat 100000 { repeat 100000 { x = x + 1; } } loss = x; }"]
    draw = random.Random(15)
    for i, text in enumerate(texts + ["".join(draw.choices("ab =;{}()[]\n\"@'~|.,2→𝔘model fn axis ", k=300)) for _ in range(40)]):
        uri = f"untitled:{i}"
        client.open(uri, text)
        for character in (0, 1, 5, 10**6):
            for method in ("hover", "definition", "completion"):
                client.at(f"textDocument/{method}", uri, 0, character)
        ask = {"textDocument": {"uri": uri}, "options": {}}
        client.ask("textDocument/documentSymbol", ask)
        client.ask("textDocument/formatting", ask)
        client.close(uri)
    check(client.end() == 0, "status")


def memory(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def typing():
    """Changes come faster than they are analysed: only the last one is, and nothing piles up."""
    client = Client(MDLC)
    client.initialize()
    client.open(URI, TEXT)
    client.diagnostics(URI)
    begun = time.monotonic()
    for i in range(300):
        client.change(URI, [{"range": {"start": {"line": 1, "character": 11}, "end": {"line": 1, "character": 12}},
                             "text": str(2 + i % 7)}])
        if i % 10 == 0:
            client.at("textDocument/completion", URI, 3, 10)
    check(client.diagnostics(URI, 301) == [], "the last one")
    check(time.monotonic() - begun < 60, "300 changes take long")
    size = []
    for i in range(60):
        client.change(URI, [{"text": TEXT + "// " + "x" * 1000 * (i % 5)}])
        client.at("textDocument/hover", URI, 2, 8)
        size.append(memory(client.process.pid))
    maps = open(f"/proc/{client.process.pid}/maps", encoding="utf-8").read()
    if "asan" not in maps:  # which keeps what is freed for a while
        check(max(size[30:]) - max(size[:30]) < 2 << 20, "memory grows", size)
    children = open(f"/proc/{client.process.pid}/task/{client.process.pid}/children", encoding="ascii").read().split()
    check(len(children) <= 1, children)
    check(client.end() == 0, "status")


def limits():
    """A text that takes too long to check is given up, and is still answered from its syntax."""
    client = Client(MDLC)
    client.initialize(initializationOptions={"checkSeconds": 0.2})
    slow = "model m {\n  axis a = 64;\n  param w: [a];\n  x = w;\n  repeat 90000 {\n    x = tanh(x * w) * w;\n  }\n  loss = sum(x);\n}\n"
    client.open(URI, slow)
    said = client.diagnostics(URI)
    check([(one["code"], one["severity"]) for one in said] == [("E090", 3)] and "more than 0.2 s" in said[0]["message"], said)
    check(client.at("textDocument/definition", URI, 5, 13)["range"]["start"]["line"] == 3, "syntax")
    check(client.end() == 0, "status")


def starved():
    """Where memory is missing the server ends with status 3 and says so, and never answers less than there is."""
    fail = os.path.join(os.environ.get("BUILD", os.path.dirname(MDLC)), "tests", "libfail.so")
    if not os.path.exists(fail) or "asan" in subprocess.run(["ldd", MDLC], capture_output=True, text=True).stdout:
        return
    at = {"textDocument": {"uri": URI}, "position": {"line": 3, "character": 14}}
    text = {"uri": URI, "languageId": "mdl", "version": 1, "text": TEXT}
    messages = [{"id": 1, "method": "initialize", "params": {"capabilities": {}}},
                {"method": "textDocument/didOpen", "params": {"textDocument": text}},
                {"id": 2, "method": "textDocument/documentSymbol", "params": at},
                {"id": 3, "method": "textDocument/hover", "params": at},
                {"id": 4, "method": "shutdown"}, {"method": "exit"}]
    bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
    sent = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)

    def run(**variables):
        return subprocess.run([MDLC, "lsp"], input=sent, capture_output=True, timeout=60,
                              env={**os.environ, "LD_PRELOAD": fail, **variables})

    count = os.path.join(os.environ["WORK"], "allocations")
    whole = run(FAIL_COUNT=count)
    check(whole.returncode == 0 and b'"id":3' in whole.stdout, whole)
    made = int(open(count).read())
    for number in range(1, made, made // 60 + 1):
        for always in ({}, {"FAIL_ALWAYS": "1"}):
            said = run(FAIL_ALLOCATION=str(number), **always)
            check(said.returncode in (0, 3), number, said)
            check(said.returncode == 0 or said.stderr, number, said)
            check(said.returncode != 0 or all(b'"id":%d' % i in said.stdout for i in (1, 2, 3, 4)), number, said)


malformed()
starved()
ends()
broken_texts()
typing()
limits()
