"""session.py: what an editor asks for, one after the other: diagnostics, hovers, definitions, symbols, completion, format."""

import json
import os
import pathlib
import time
import urllib.parse

from client import Client

WORK = pathlib.Path(os.environ["WORK"])
MDLC = os.environ["MDLC"]

BROKEN = """// gpt.mdl: a text of the test. 𝔘 is two UTF-16 units.
import std.nn;
import "layer.mdl";

model tiny {
  axis batch, seq;
  axis vocab = 256, embed = 8, heads = 2, hd = 4;
  input tokens, targets: index(vocab)[batch, seq];
  x = embedding(tokens over vocab to embed) @resid;  // a value
  q = linear(x over embed to heads, hd);
  y = project(x over embed);
  /**/x = x + linear(q over heads, hd to embed, name = out);
  logits = linear(x + y over embed to vocab, name = head);
  loss = mean(cross_entropy(logits, targets over vocab));
}

recipe small {
  model tiny();
  batch = 4;
  seq = 8;
  data text("corpus.txt", tokenizer = bytes);
  optimizer adamw(lr = 1e-3);
}
layout two { mesh tp = 2; heads -> tp; }
precision half { base bf16; }
"""
LAYER = """// layer.mdl: one function.
import std.nn;

// A product without a bias.
fn project(x over a) {
  axis other like a;
  return linear(x[a -> other] over other to a);
}
"""


def uri_of(path):
    return "file://" + urllib.parse.quote(str(path))


def place(text, word, nth=0):
    """Line and UTF-16 column of a word's nth occurrence."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(word, at + 1)
    line = text.count("\n", 0, at)
    before = text[text.rfind("\n", 0, at) + 1:at]
    return line, len(before.encode("utf-16-le")) // 2


def check(condition, *what):
    assert condition, what


def hover(client, uri, text, word, wanted=""):
    """What is said of a word, when `wanted` is part of it: formats and ranks come when all passes are through."""
    until = time.monotonic() + 30
    while True:
        said = client.at("textDocument/hover", uri, *place(text, word))
        value = said["contents"]["value"] if said else ""
        if wanted in value or time.monotonic() > until:
            return value


def start(**options):
    client = Client(MDLC)
    said = client.initialize(capabilities={"textDocument": {"hover": {"contentFormat": ["markdown", "plaintext"]}}},
                             initializationOptions=options)
    check(said["capabilities"]["positionEncoding"] == "utf-16", said)
    client.notify("initialized", {})
    return client


def diagnostics(client, uri):
    """An error with its range, mended, cleared; warnings, a second place, a help; from open buffers, not from files."""
    fixed = BROKEN.replace("/**/", "")
    client.open(uri, BROKEN)
    said = client.diagnostics(uri)
    line, column = place(BROKEN, "/**/")
    check(len(said) == 1 and said[0]["code"] == "E002" and said[0]["severity"] == 1, said)
    check(said[0]["range"] == {"start": {"line": line, "character": column},
                               "end": {"line": line, "character": column + 2}}, said)
    check("help: comments are written" in said[0]["message"] and said[0]["source"] == "mdlc", said)
    client.change(uri, [{"range": {"start": {"line": line, "character": column},
                                   "end": {"line": line, "character": column + 4}}, "text": ""}])
    client.expects(uri)  # it is cleared

    # layer.mdl is open and differs from its file: it is what holds.
    layer = uri_of(WORK / "layer.mdl")
    client.open(layer, LAYER.replace("project(", "projection("))
    said = client.expects(uri, "E010")
    check("did you mean `projection`?" in said[0]["message"], said)
    client.change(layer, [{"text": LAYER}])
    client.expects(uri)

    # A second place, in another line; a warning.
    twice = fixed.replace("  loss =", "  axis heads = 3;\n  unused = x;\n  loss =")
    client.change(uri, [{"text": twice}])
    said = client.expects(uri, "E011")
    other = said[0]["relatedInformation"][0]
    check(other["location"]["uri"] == uri and other["location"]["range"]["start"]["line"] == 6, other)
    client.change(uri, [{"text": twice.replace("  axis heads = 3;\n", "")}])
    said = client.expects(uri, "E016")
    check(said[0]["severity"] == 2 and said[0]["tags"] == [1], "a warning, of what nothing reads", said)
    client.change(uri, [{"text": fixed}])
    client.expects(uri)
    return fixed


def hovers(client, uri, text):
    said = hover(client, uri, text, "q =", "stored as")
    check("q: real[batch, seq, heads, hd]" in said and "batch 4, seq 8, heads 2, hd 4: 256 numbers" in said, said)
    check("stored as bf16" in said, said)
    check("under the layout two a rank holds [batch 4, seq 8, heads 2/tp2, hd 4]: 256 bytes of 512 bytes" in said, said)
    said = hover(client, uri, text, "x = embedding", "under the layout")
    check("under the layout two every rank holds all of it: 512 bytes" in said, said)
    check("heads: axis, 2 positions" in hover(client, uri, text, "heads = 2", "axis,"), "an axis")
    check("index(vocab)[batch, seq]" in hover(client, uri, text, "tokens over", "index("), "an input")
    said = hover(client, uri, text, "linear(x over embed to heads", "parameter q.w")
    check("fn linear(x over i... to o..., bias = false, std = 0.02, rank = 0, alpha = 16)" in said, said)
    check("y = x w + b" in said and "gives real[batch, seq, heads, hd] here" in said, said)
    check("parameter q.w: [embed 8 ; heads 2, hd 4], 64 numbers" in said, said)
    said = hover(client, uri, text, "project(")
    check("fn project(x over a)" in said and "A product without a bias." in said, said)
    check("in 5 tensors" in hover(client, uri, text, "tiny {", "tensors"), "a model")
    check("max(x over i...)" not in hover(client, uri, text, "mean("), "another function")
    check("The mean along axes" in hover(client, uri, text, "mean("), "a function of the language")
    check("A model with its sizes" in hover(client, uri, text, "recipe small"), "a keyword")
    check(hover(client, uri, text, "value") == "", "words of comments stand for nothing")
    # A function of the open layer.mdl, as it is called here.
    layer = uri_of(WORK / "layer.mdl")
    check("real[batch, seq, embed]" in hover(client, layer, LAYER, "x[a", "real["), "as it is called")


def codes(client):
    text = "// E022 stands here.\nmodel m {\n  axis a = 2, b = 3;\n  param u: [a];\n  param v: [b];\n  loss = sum(u * v);\n}\n"
    uri = "untitled:codes"
    client.open(uri, text)
    check("the layout 'two', which this text does not have" in client.expects(uri, "E010", "E022")[0]["message"], "settings")
    said = hover(client, uri, text, "E022")
    check(said.startswith("E022: ") and "```mdl" in said and "error[E022]" in said, said)
    check("`mdlc explain E022` shows an example" in hover(client, uri, text, "u * v", "explain"), "where the error is")
    client.close(uri)
    client.expects(uri)
    # Nothing of the settings while an error of the text may hide what they ask for.
    client.open("untitled:typing", text.replace("v: [b];", "v: [b] = ;") + "layout two {}\n")
    client.expects("untitled:typing", "E001")
    client.close("untitled:typing")
    client.expects("untitled:typing")


def definitions(client, uri, text):
    def definition(word, nth=0, of=uri, inside=text):
        return client.at("textDocument/definition", of, *place(inside, word, nth))

    def goes(found, to, line, column):
        check(found and found["uri"] == to and found["range"]["start"] == {"line": line, "character": column},
              found, to, line, column)

    layer = uri_of(WORK / "layer.mdl")
    goes(definition("project("), layer, *place(LAYER, "project("))
    goes(definition("q over"), uri, *place(text, "q ="))
    goes(definition("heads, hd);"), uri, *place(text, "heads = 2"))
    goes(definition("x + linear"), uri, *place(text, "x = embedding"))  # not the one that is made of it
    goes(definition("x + y"), uri, *place(text, "x = x"))
    goes(definition("tiny()"), uri, *place(text, "tiny {"))
    goes(definition("tp; }"), uri, *place(text, "tp = 2"))
    goes(definition("heads -> tp"), uri, *place(text, "heads = 2"))
    goes(definition("layer.mdl\";"), layer, 0, 0)
    goes(definition("a -> other", 0, layer, LAYER), layer, *place(LAYER, "a) {"))
    found = definition("linear(x over embed to heads")  # in the library, of which a file is made
    path = pathlib.Path(urllib.parse.unquote(found["uri"][len("file://"):]))
    check(path.name == "nn.mdl" and path.is_relative_to(os.environ["XDG_CACHE_HOME"]), path)
    row = path.read_text().split("\n")[found["range"]["start"]["line"]]
    check(row.startswith("fn linear(") and found["range"]["start"]["character"] == 3, row)
    check(path.read_text() == (pathlib.Path(os.environ["ROOT"]) / "stdlib/nn.mdl").read_text(), "it is the library")
    client.open(found["uri"], path.read_text())
    client.expects(found["uri"], "E010")  # nothing is wrong with it but that it lacks the layout
    check(definition("mean(") is None, "the language has no text")


def settings_definitions():
    """What recipes name: a layout, a precision, a model, its axes; labels."""
    text = BROKEN.replace("/**/", "").replace("  batch = 4;", "  batch = 4;\n  layout two;\n  precision half;")
    text = text.replace("heads -> tp;", "heads -> tp; @resid: seq -> tp;").replace("tiny()", "tiny(embed = 16)")
    client = start()
    uri = uri_of(WORK / "recipes.mdl")
    client.open(uri, text)

    def goes(word, to):
        found = client.at("textDocument/definition", uri, *place(text, word))
        line, column = place(text, to)
        check(found and found["range"]["start"] == {"line": line, "character": column}, word, found)

    goes("two;", "two {")
    goes("half;", "half {")
    goes("tiny(embed", "tiny {")
    goes("embed = 16", "embed = 8")
    goes("@resid: seq", "@resid;")
    goes("batch = 4", "batch, seq")
    goes("seq -> tp", "seq;")
    check("fn" not in hover(client, uri, text, "two;") and "mesh tp = 2;" in hover(client, uri, text, "two;"), "a layout")
    check("update adamw(p, g, lr" in hover(client, uri, text, "adamw("), "an update")
    check("optimizer norm: adamw" in hover(client, uri, text, "optimizer"), "an entry of recipes")
    check(client.end() == 0, "status")


def links():
    """A text that is opened through a link, before it is saved and after that: the buffer is what counts."""
    (WORK / "real").mkdir(exist_ok=True)
    (WORK / "link").symlink_to(WORK / "real")
    client = start()
    uri = uri_of(WORK / "link" / "new.mdl")
    text = "model m {\n  axis a = 2;\n  param w: [a];\n  loss = sum(w);\n}\n"
    client.open(uri, text)
    client.expects(uri)
    (WORK / "real" / "new.mdl").write_text("model {")
    client.change(uri, [{"text": text.replace("sum(w)", "v")}])
    client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    client.expects(uri, "E010")
    check(client.end() == 0, "status")


def symbols(client, uri):
    said = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    check([one["name"] for one in said] == ["std.nn", "layer.mdl", "tiny", "small", "two", "half"], said)
    inner = [one["name"] for one in said[2]["children"]]
    check(inner == ["batch", "seq", "vocab", "embed", "heads", "hd", "tokens", "targets", "x", "q", "y", "logits", "loss"],
          inner)
    for one in said + said[2]["children"]:
        for end in ("start", "end"):
            check(one["range"]["start"]["line"] <= one["selectionRange"][end]["line"] <= one["range"]["end"]["line"], one)


def outline():
    """A long text has its outline at once, and each name is where it says, whatever ends lines and however long they are."""
    client = start()
    for ending, count in (("\n", 20000), ("\r\n", 2000), (" ", 2000), ("// " + "x" * 3000 + "𝔘\r\n", 50)):
        names = [f"a{i}" for i in range(count)]
        text = "model m {" + "".join(f" axis {name} = 1;{ending}" for name in names) + "}\n"
        uri = uri_of(WORK / "outline.mdl")
        client.open(uri, text)
        begun = time.monotonic()
        inner = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})[0]["children"]
        check(time.monotonic() - begun < 5, "an outline takes seconds")
        check([one["name"] for one in inner] == names, len(inner))
        lines = [line.encode("utf-16-le") for line in text.replace("\r\n", "\n").split("\n")]
        for one in inner:
            begin, end = one["selectionRange"]["start"], one["selectionRange"]["end"]
            check(begin["line"] == end["line"], one)
            there = lines[begin["line"]][2 * begin["character"]:2 * end["character"]].decode("utf-16-le")
            check(there == one["name"], (one, there))
        client.close(uri)
    check(client.end() == 0, "status")


def completion(client, uri, text):
    def items(text, word):
        client.change(uri, [{"text": text}])
        line, column = place(text, word)
        said = client.at("textDocument/completion", uri, line, column + len(word))
        return {one["label"]: one for one in said["items"]}

    line = "  q = linear(x over embed to heads, hd);\n"
    found = items(text.replace(line, line + "  z = (\n"), "  z = (")
    check({"x", "q", "embed", "tokens", "linear", "project", "repeat", "dot", "training"} <= set(found), sorted(found))
    check("fn linear(" in found["linear"]["detail"] and "additionalTextEdits" not in found["linear"], found["linear"])
    found = items(text.replace(line, line + "  z = std.rms\n"), "std.rms")
    check("rms_norm" in found and "x" not in found, sorted(found))
    check(found["rms_norm"]["textEdit"]["newText"] == "rms_norm", found["rms_norm"])
    found = items(text.replace("import std.nn;", "import std."), "import std.")
    check({"nn", "optim", "schedule"} <= set(found) and "linear" not in found, sorted(found))
    # A function of a part that is not imported brings the import.
    found = items("// t.mdl: x.\nmodel m {\n  a = lin\n}\n", "lin")
    edit = found["linear"]["additionalTextEdits"][0]
    check(edit["newText"] == "import std.nn;\n" and edit["range"]["start"] == {"line": 1, "character": 0}, edit)
    found = items(text.replace("mesh tp = 2;", "mesh tp = 2; rec"), "tp = 2; rec")
    check({"recompute", "heads", "microbatches"} <= set(found), sorted(found))
    check(items(text, "// gpt") == {}, "comments are free")


def formatting(client, uri, text):
    ask = {"textDocument": {"uri": uri}, "options": {"tabSize": 2, "insertSpaces": True}}
    client.change(uri, [{"text": text}])
    wanted = client.ask("textDocument/formatting", ask)
    formatted = wanted[0]["newText"] if wanted else text
    client.change(uri, [{"text": formatted}])
    check(client.ask("textDocument/formatting", ask) == [], "it is formatted")
    client.change(uri, [{"text": formatted.replace("  batch = 4;", "batch=4 ;")}])
    edits = client.ask("textDocument/formatting", ask)
    check(len(edits) == 1 and edits[0]["newText"] == formatted, edits)
    check(edits[0]["range"]["end"] == {"line": formatted.count("\n"), "character": 0}, edits)
    lost_changes(client, uri, formatted)
    client.change(uri, [{"text": BROKEN}])
    check(client.ask("textDocument/formatting", ask) is None, "a text with errors stays")


def lost_changes(client, uri, text):
    """An edit over a text in which something is not known here would undo that for its writer."""
    ask = {"textDocument": {"uri": uri}, "options": {"tabSize": 2, "insertSpaces": True}}
    loose = text.replace("  batch = 4;", "batch=4 ;")
    backwards = {"start": {"line": 3, "character": 0}, "end": {"line": 2, "character": 0}}
    wrong = ({"contentChanges": [{"range": backwards, "text": "x"}]}, {"contentChanges": [{}]}, {"contentChanges": 5})
    for change in wrong:
        client.change(uri, [{"text": loose}])
        check(len(client.ask("textDocument/formatting", ask)) == 1, "all of the text again")
        client.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": 90}, **change})
        check(client.refused("textDocument/formatting", ask) == -32803, change)
        client.change(uri, [{"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}, "text": "\n"}])
        check(client.refused("textDocument/formatting", ask) == -32803, "a further change")
    client.change(uri, [{"text": loose}])
    client.send(b"{\"jsonrpc\": ")
    check(client.refused("textDocument/formatting", ask) == -32803, "a message that may have been a change")
    client.change(uri, [{"text": loose}])
    # Half of a pair is one unit of UTF-16 and no UTF-8; a whole one, and a backslash before a letter, stay.
    for sent, kept in (("\ud800", "\ufffd"), ("\udc00\ud83d\ude00", "\ufffd\U0001f600"), ("\\ud800 \ud83d", "\\ud800 \ufffd")):
        change = {"textDocument": {"uri": uri, "version": 91}, "contentChanges": [{"text": "// " + sent + "\n" + loose}]}
        message = {"jsonrpc": "2.0", "method": "textDocument/didChange", "params": change}
        client.send(json.dumps(message).encode())  # with escapes, as editors write what is no UTF-8
        edits = client.ask("textDocument/formatting", ask)
        check(edits[0]["newText"] == "// " + kept + "\n" + text, sent.encode("utf-16", "surrogatepass"), edits)


def encodings():
    """Columns behind characters beyond the basic plane, in both encodings; changes between them too."""
    uri = "untitled:wide"
    text = 'model m { // 𝔘\r\n  axis a = 2;\n  param w: [a];\r  output s = f("𝔘é𝔘") + b; // 𝔘\n  loss = sum(w);\n}\n'
    row = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[3]
    for encoding, unit in (("utf-16", "utf-16-le"), ("utf-8", "utf-8")):
        def column(before):
            return len(before.encode(unit)) // (2 if encoding == "utf-16" else 1)

        client = Client(MDLC)
        offered = {"general": {"positionEncodings": ["utf-16", "utf-8"]}} if encoding == "utf-8" else {}
        said = client.initialize(capabilities=offered)
        check(said["capabilities"]["positionEncoding"] == encoding, said)
        client.open(uri, text)
        said = client.expects(uri, "E010", "E010")  # no function f, no value b
        begin, end = column(row.partition("f(")[0]), column(row.partition("b;")[0])
        places = [(one["range"]["start"]["line"], one["range"]["start"]["character"]) for one in said]
        check(places == [(3, begin), (3, end)], places, begin, end)
        # Without what stands between them the second is where the first was.
        client.change(uri, [{"range": {"start": {"line": 3, "character": begin}, "end": {"line": 3, "character": end}},
                             "text": ""}])
        said = client.expects(uri, "E010")
        check(said[0]["range"] == {"start": {"line": 3, "character": begin},
                                   "end": {"line": 3, "character": begin + 1}}, said)
        # From behind the end of a line, which is its end; the line end becomes two.
        client.change(uri, [{"range": {"start": {"line": 0, "character": column(row) + 99},
                                       "end": {"line": 1, "character": 0}}, "text": "\n\n"}])
        said = client.expects(uri, "E010")
        check(said[0]["range"]["start"] == {"line": 4, "character": begin}, said)
        check(client.end() == 0, "status")


def configured(uri, text):
    """What is asked for by settings, and settings that are wrong."""
    client = start(layout="two", precision="half")
    client.open(uri, text)
    client.expects(uri)
    check("stored as bf16" in hover(client, uri, text, "q =", "stored as"), "settings at the start")
    client.notify("workspace/didChangeConfiguration", {"settings": {"mdl": {"precision": "fp32"}}})
    said = hover(client, uri, text, "q =", "stored as f32")
    check("stored as f32" in said and "under the layout" not in said, said)
    client.notify("workspace/didChangeConfiguration", {"settings": {"mdl": {"layout": "none_such"}}})
    said = client.expects(uri, "E010")
    check(said[0]["severity"] == 3 and "none_such" in said[0]["message"], said)
    check(said[0]["range"]["start"] == {"line": 0, "character": 0}, said)
    client.notify("workspace/didChangeConfiguration", {"settings": {"mdl": {"layout": 7}}})
    check("names" in client.hears("window/logMessage")["message"], "a wrong setting")
    check(client.end() == 0, "status")


def main():
    (WORK / "layer.mdl").write_text(LAYER)
    (WORK / "corpus.txt").write_text("some text " * 100)
    path = WORK / "a dir"
    path.mkdir(exist_ok=True)
    uri = uri_of(WORK / "gpt é.mdl")  # not on disc
    client = start(layout="two", precision="half")
    text = diagnostics(client, uri)
    hovers(client, uri, text)
    codes(client)
    definitions(client, uri, text)
    symbols(client, uri)
    completion(client, uri, text)
    formatting(client, uri, text)
    client.expects(uri, "E002")
    client.close(uri)
    client.expects(uri)
    check(client.end() == 0, "status")
    check(client.process.stderr.read() == b"", "nothing is said beside the protocol")
    encodings()
    settings_definitions()
    links()
    outline()
    configured(uri, text)


main()
