"""client.py: a client of the language server that says what it is told to and keeps what it hears."""

import json
import os
import select
import subprocess
import time


class Client:
    def __init__(self, mdlc, environment=None):
        self.process = subprocess.Popen([mdlc, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=environment)
        self.bytes = b""
        self.last = 0
        self.versions = {}  # of open texts
        self.heard = []  # messages that nobody has waited for yet

    # --- bytes ---

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        body = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        self.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def receive(self, seconds=20):
        """The next message; None: the server has closed its side, or says nothing for so long."""
        until = time.monotonic() + seconds
        while True:
            head, blank, rest = self.bytes.partition(b"\r\n\r\n")
            if blank:
                length = int(head.split(b":")[1])
                if len(rest) >= length:
                    self.bytes = rest[length:]
                    return json.loads(rest[:length])
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                return None
            self.bytes += more

    # --- messages ---

    def notify(self, method, parameters):
        self.send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def begin(self, method, parameters):
        self.last += 1
        self.send({"jsonrpc": "2.0", "id": self.last, "method": method, "params": parameters})
        return self.last

    def answer(self, number):
        while True:
            message = self.receive()
            assert message is not None, f"no answer to {number}"
            if "method" not in message and message.get("id") == number:
                return message
            self.heard.append(message)

    def ask(self, method, parameters):
        message = self.answer(self.begin(method, parameters))
        assert "error" not in message, message
        return message["result"]

    def refused(self, method, parameters):
        return self.answer(self.begin(method, parameters))["error"]["code"]

    def hears(self, method, uri=None, seconds=20):
        """The next notification of this kind, of this text."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for i, message in enumerate(self.heard):
                if message.get("method") == method and uri in (None, message["params"].get("uri")):
                    del self.heard[i]
                    return message["params"]
            message = self.receive(until - time.monotonic())
            if message is None:
                break
            self.heard.append(message)
        return None

    def diagnostics(self, uri, version=None):
        """What is said of this version of a text next; of the last one that was sent without a version."""
        while True:
            said = self.hears("textDocument/publishDiagnostics", uri)
            assert said is not None, f"nothing is said of {uri}"
            if said.get("version") == (self.versions.get(uri) if version is None else version):
                return said["diagnostics"]

    def expects(self, uri, *codes):
        """Until these codes are said of the text as it is; all of them."""
        while True:
            said = self.diagnostics(uri)
            if [one["code"] for one in said] == list(codes):
                return said

    # --- what editors do ---

    def initialize(self, **parameters):
        return self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}, **parameters})

    def open(self, uri, text, version=1):
        self.versions[uri] = version
        self.notify("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "mdl", "version": version,
                                                              "text": text}})

    def change(self, uri, changes):
        self.versions[uri] += 1
        version = self.versions[uri]
        self.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": version},
                                               "contentChanges": changes})

    def close(self, uri):
        del self.versions[uri]
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def at(self, method, uri, line, character):
        return self.ask(method, {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}})

    def end(self):
        self.ask("shutdown", None)
        self.notify("exit", None)
        return self.process.wait(20)
