#!/usr/bin/env python3
"""compare.py: tokens of models of SentencePiece that `mdl data encode` makes, against the package, one by one.

    compare.py MDL ROOT MEGABYTES    # writes into the working directory; exit status 77: the package is missing
    compare.py --make ROOT           # makes the small models that lie beside this file, and their tokens, anew

The text is sources and pages of ROOT, words of Japanese letters drawn at random, odd characters, and bytes that are no
UTF-8. Compared are the tokens of lines, each of which is a file for `mdl`, and those of the whole text.
"""

import glob
import os
import random
import sys

try:
    import sentencepiece
except ImportError as missing:
    print(f"skipped: {missing}; pip install sentencepiece")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tokenizer"))
from encoded import ours, same

# Rules of a small normal form: longest first, spaces, nothing, one to many, and some that begin alike.
RULES = [("Ａ", "A"), ("ｶ", "カ"), ("ｶﾞ", "ガ"), ("\t", " "), ("\u3000", " "), ("\u200b", ""), ("㍿", "株式会社"),
         ("e\u0301", "é"), ("e\u0301\u0323", "ẹ́"), ("ﷺ", "صلى الله"), ("ß", "ss")]
KINDS = {
    "bpe": {"model_type": "bpe", "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "bpe_bytes": {"model_type": "bpe", "byte_fallback": True, "user_defined_symbols": ["<sym>", "==", "日本語"]},
    "bpe_whole": {"model_type": "bpe", "byte_fallback": True, "split_by_whitespace": False, "add_dummy_prefix": False,
                  "split_by_unicode_script": False, "normalization_rule_name": "identity",
                  "remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True},
    "bpe_suffix": {"model_type": "bpe", "treat_whitespace_as_suffix": True},
    "unigram": {"model_type": "unigram"},
    "unigram_bytes": {"model_type": "unigram", "normalization_rule_name": "identity", "byte_fallback": True,
                      "user_defined_symbols": ["<sym>", "==", "日本語"], "remove_extra_whitespaces": False},
    "unigram_fold": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf", "split_by_whitespace": False,
                     "control_symbols": ["<c>"]},
    "unigram_suffix": {"model_type": "unigram", "treat_whitespace_as_suffix": True, "normalization_rule_name": "nfkc"},
    "char": {"model_type": "char", "normalization_rule_name": "nfkc", "user_defined_symbols": ["<sym>"]},
}
ODD = ["é", "ſ", " ", "  ", "\t", "1", "２", "½", "Ⅷ", "\u0085", "\u180e", "\u200b", "\u3000", "日本語", "。", "😀", "e\u0301",
       "<s>", "</s>", "<unk>", "ﷺ", "ﬁ", "\ufffd", "カﾞ", "ｶﾞ", "a" * 40, "\u2581", "\u2581\u2581", " \u2581 ", "<sym>",
       "<sy", "sym ", "㍿", "\u00a8", "\x00", "\x01", "\u0344", "İ", "ß", "한국어", "\u1100\u1161\u11a8", "<0x0A>", "==", "--",
       "ａｂｃ", "Ａx", "e\u0301\u0323", "ｶ", "hello", " the", " of"]
BAD = [b"\xff", b"\xe6\x97", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xf0\x9f\x98"]
KANA = [chr(c) for c in list(range(0x3041, 0x3097)) + list(range(0x4e00, 0x4e40))]
LATEST = (0, 2, 3)  # whose rounding of sums of scores is ours


def corpus(root, size):
    words = ["".join(random.choices(KANA, k=random.randrange(1, 6))) for _ in range(3000)]
    files = sorted(glob.glob(root + "/docs/*.md") + glob.glob(root + "/base/*.c") + [root + "/LICENSE"])
    lines = "".join(open(name, encoding="utf-8").read() for name in files).split("\n")
    text = bytearray()
    while len(text) < size:
        draw = random.random()
        if draw < 0.55:
            at = random.randrange(len(lines))
            text += "\n".join(lines[at:at + 20]).encode() + b"\n"
        elif draw < 0.9:
            text += "".join(random.choice(words) if random.random() < 0.8 else random.choice("。、はがをにのでと")
                            for _ in range(60)).encode() + b"\n"
        elif draw < 0.97:
            text += "".join(random.choices(ODD, k=40)).encode() + random.choice([b"\n", b"", b" "])
        else:
            text += b"".join(random.choice(BAD) + "".join(random.choices(ODD, k=2)).encode() for _ in range(10))
    return bytes(text)


def train(name, text, tokens, **options):
    lines = [line for line in text.decode("utf-8", "ignore").replace("\0", "").split("\n") if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=name, vocab_size=tokens, character_coverage=0.999, minloglevel=2,
        num_threads=1, max_sentence_length=100000, hard_vocab_limit=False, **options)
    os.remove(name + ".vocab")
    return sentencepiece.SentencePieceProcessor(model_file=name + ".model")


def kind_same(mdl, name, model, text, parts):
    end = model.piece_to_id("</s>")
    wanted = []
    for part in parts:
        wanted += model.encode(open(part, "rb").read()) + [end]
    good = same(name, wanted, ours(mdl, name + ".model", parts))
    with open("text", "wb") as out:
        out.write(text)
    return same(name + ", one text", model.encode(text) + [end], ours(mdl, name + ".model", ["text"])) and good


def compare(mdl, root, size):
    text = corpus(root, size)
    parts = []
    for i, line in enumerate(text[:size // 2].split(b"\n")[:2000]):
        if line:
            parts.append(f"part{i}")
            with open(parts[-1], "wb") as out:
                out.write(line)
    version = tuple(int(part) for part in sentencepiece.__version__.split(".")[:3])
    good = True
    for name, options in KINDS.items():
        if version < LATEST and options["model_type"] == "unigram":
            print(f"{name} is left out: sentencepiece {sentencepiece.__version__} rounds otherwise than 0.2.3")
            continue
        model = train(name, text[:2000000], 1000 if size < 1000000 else 4000, **options)
        good &= kind_same(mdl, name, model, text, parts)
    return 0 if good else 1


# The models that lie here, and the tokens of a text by them.
def make(root):
    here = root + "/tests/sentence/"
    text = corpus(root, 60000)
    with open("rules.tsv", "w", encoding="utf-8") as out:
        for source, target in RULES:
            out.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
    sample = corpus(root, 4000)
    sample += "".join(source + " " + source for source, _ in RULES).encode() + b"  \xff \xe3\x81 "
    with open(here + "text", "wb") as out:
        out.write(sample)
    common = {"normalization_rule_tsv": "rules.tsv", "user_defined_symbols": ["<sym>", "日本語"]}
    for name, options in {"bpe": {"model_type": "bpe", "byte_fallback": True}, "unigram": {"model_type": "unigram"}}.items():
        model = train(name, text, 700, **options, **common)
        os.replace(name + ".model", here + name + ".model")
        with open(here + name + ".tokens", "w", encoding="utf-8") as out:
            tokens = [str(token) for token in model.encode(sample)]
            out.write("".join(" ".join(tokens[i:i + 24]) + "\n" for i in range(0, len(tokens), 24)))
        with open(here + name + ".decoded", "wb") as out:
            out.write(model.decode(model.encode(sample)).encode())
    os.remove("rules.tsv")


if __name__ == "__main__":
    random.seed(15)
    if sys.argv[1] == "--make":
        make(sys.argv[2])
    else:
        sys.exit(compare(sys.argv[1], sys.argv[2], int(float(sys.argv[3]) * 1e6)))
