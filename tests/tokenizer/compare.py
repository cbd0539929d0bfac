#!/usr/bin/env python3
"""compare.py: tokens that `mdl data encode` makes, against the packages tokenizers and tiktoken, one by one.

    compare.py MDL ROOT MEGABYTES    # writes into the working directory; exit status 77: a package is missing

The text is sources and pages of ROOT, letters of many scripts drawn at random, and for tiktoken bytes that are no UTF-8.
"""

import base64
import glob
import json
import random
import subprocess
import sys

try:
    import tiktoken
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
except ImportError as missing:
    print(f"skipped: {missing}; pip install tokenizers tiktoken")
    sys.exit(77)

from encoded import ours, same

MDL, ROOT, SIZE = sys.argv[1], sys.argv[2], int(float(sys.argv[3]) * 1e6)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
# Where the patterns of Oniguruma differ from PCRE2's.
DIALECT = {
    "sets.json": (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}&&[^\p{Han}]]+(?i:'s|'ll)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                  r"|\s*[\r\n]+|\s+(?!\S)|\s+"),
    "bloom.json": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "lines.json": r"^ +|\w+|\s+$|\p{N}{1,3}+|[[:alnum:]_]+",
    "edges.json": r"\b\W+\b|[a-z&&[^aeiou]]+|\h+"}
ODD = ["é", "ſ", "'s", "'S", "'ſ", "'ll", "'RE", " ", "  ", "\n", "\r\n", "\t", "1", "２", "½", "Ⅷ", "\u0085", "\u180e",
       "\u200b", "\u3000", "日本語", "。", "😀", "e\u0301", "<|endoftext|>", "<|end", "-", "__", "(", "''", "١٢٣٤", "ǅ", "ʰ",
       "a\u0323\u0307", "\u0344", "\u2126", "\ufb01", "\uf900", "\u304b\u3099", "\u1100\u1161\u11a8", "\uac00\u11a8", "ẛ̣",
       "licence", "Copyright", "a" * 300, "</s>", "<s>", "\u2581"]
BAD = [b"\xff", b"\xe6\x97", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80"]


def drawn(count):
    kana = [chr(c) for c in range(0x3041, 0x30ff)] + [chr(c) for c in range(0x4e00, 0x4f00)]
    return "".join(random.choice(ODD) if random.random() < 0.5 else "".join(random.choices(kana, k=random.randrange(1, 9)))
                   for _ in range(count))


def corpus():
    files = sorted(glob.glob(ROOT + "/docs/*.md") + glob.glob(ROOT + "/*/*/*.c") + [ROOT + "/LICENSE"])
    written = "".join(open(name, encoding="utf-8").read() for name in files)
    # The bytes of small tokenizers do not end here: their words are learned from a part.
    return (written * (1 + SIZE // len(written)))[:SIZE // 2] + drawn(SIZE // 20)


def trained(name, cut, text, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = cut
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([text[-300000:]], trainers.BpeTrainer(
        vocab_size=3000, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False))
    if model:
        tokenizer.add_tokens([AddedToken("licence", normalized=False),
                              AddedToken("Copyright", lstrip=True, rstrip=True, normalized=False)])
    tokenizer.save(name)
    return tokenizer


def hugging_face(text):
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False)
    split = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    kinds = {"gpt2.json": (whole, {}), "llama3.json": (pre_tokenizers.Sequence([split, last]), {"ignore_merges": True}),
             "digits.json": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), whole]), {})}
    kinds.update({name: (pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), last]), {})
                  for name, pattern in DIALECT.items()})
    forms = {"qwen.json": normalizers.NFC(), "nfd.json": normalizers.Sequence([normalizers.NFD()]),
             "nfkc.json": normalizers.NFKC(), "nfkd.json": normalizers.NFKD()}
    kinds.update({name: (None, {}) for name in forms})
    qwen = trained("plain.json", pre_tokenizers.Sequence([split, last]), text)
    good = True
    for name, (cut, model) in kinds.items():
        tokenizer = trained(name, cut, text, **model) if cut else qwen
        if name in forms:
            tokenizer.normalizer = forms[name]
            tokenizer.add_tokens([AddedToken("e"), AddedToken("void", normalized=False)])
            tokenizer.save(name)
        wanted = tokenizer.encode(text, add_special_tokens=False).ids
        end = tokenizer.token_to_id("<|endoftext|>")
        good &= same(name, wanted + [end], ours(MDL, name, ["text"]))
    return good


# Tokens of characters, as Llama 2, Gemma and Mistral have them: their spaces are letters, and what is no token is bytes.
def characters(text):
    mark = "\u2581"
    replace = normalizers.Replace(" ", mark)
    meta = pre_tokenizers.Metaspace(replacement=mark, prepend_scheme="first", split=False)
    split = pre_tokenizers.Split(" ", "merged_with_previous")
    kinds = {"llama2.json": (normalizers.Sequence([normalizers.Prepend(mark), replace]), None), "gemma.json": (replace, split),
             "mistral.json": (None, meta)}
    good = True
    for name, (normalizer, cut) in kinds.items():
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.train_from_iterator([text[:200000]], trainers.BpeTrainer(
            vocab_size=2500, limit_alphabet=150, show_progress=False,
            special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]))
        parts = json.loads(tokenizer.to_str())
        parts["added_tokens"] = [token for token in parts["added_tokens"] if not token["content"].startswith("<0x")]
        parts["pre_tokenizer"] = None
        tokenizer = Tokenizer.from_str(json.dumps(parts))
        if normalizer:
            tokenizer.normalizer = normalizer
        if cut:
            tokenizer.pre_tokenizer = cut
        tokenizer.add_tokens([AddedToken("licence"), AddedToken("  return"), AddedToken("void", normalized=False)])
        tokenizer.save(name)
        wanted = tokenizer.encode(text, add_special_tokens=False).ids
        good &= same(name, wanted + [tokenizer.token_to_id("</s>")], ours(MDL, name, ["text"]))
    return good


# Words without an end: of few letters, of one, and of a language that has no spaces.
def unbroken():
    return "\n".join(["".join(random.choices("ACGT", k=6000)), "a" * 5001, "some words " * 3,
                      "".join(random.choices([chr(c) for c in range(0x4e00, 0x4e80)], k=3000)), "ab" * 3000])


# One that we train is theirs: the merges, and the tokens.
def trains(name, text):
    subprocess.run([MDL, "data", "train-tokenizer", name, "-o", "mine.json", "--vocab", "2000"], check=True,
                   capture_output=True)
    mine = Tokenizer.from_file("mine.json")
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = mine.pre_tokenizer
    theirs.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=1999, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    merges = [list(pair) for pair in json.loads(theirs.to_str())["model"]["merges"]]
    good = same("merges that were trained", merges, json.load(open("mine.json"))["model"]["merges"])
    wanted = mine.encode(text, add_special_tokens=False).ids
    return same("mine.json", wanted + [mine.token_to_id("<|endoftext|>")], ours(MDL, "mine.json", [name])) and good


def ranks(text):
    letters = {chr(c): c for c in list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))}
    others = [b for b in range(256) if b not in letters.values()]
    letters.update({chr(256 + i): b for i, b in enumerate(others)})
    model = json.load(open("mine.json"))["model"]
    table = {bytes(letters[c] for c in word): i for word, i in model["vocab"].items() if word != "<|endoftext|>"}
    with open("mine.tiktoken", "w") as out:
        for word, rank in table.items():
            out.write(f"{base64.b64encode(word).decode()} {rank}\n")
    encoding = tiktoken.Encoding("mine", pat_str=GPT2, mergeable_ranks=table, special_tokens={})
    good = same("mine.tiktoken", encoding.encode_ordinary(text), ours(MDL, "mine.tiktoken", ["text"]))
    parts = []
    for _ in range(5000):  # what is no UTF-8 is a piece by itself
        valid, bad = drawn(random.randrange(1, 6)), random.choice(BAD)
        parts += [(valid, encoding.encode_ordinary(valid)), (bad, encoding._encode_single_piece(bad))]
    with open("odd", "wb") as out:
        out.write(b"".join(part if isinstance(part, bytes) else part.encode() for part, _ in parts))
    wanted = [t for _, tokens in parts for t in tokens]
    return same("bytes that are no UTF-8", wanted, ours(MDL, "mine.tiktoken", ["odd"])) and good


def main():
    random.seed(15)
    text = corpus()
    with open("text", "wb") as out:
        out.write(text.encode())
    with open("unbroken", "w") as out:
        out.write(words := unbroken())
    text = open("text", "rb").read().decode()
    return 0 if all([hugging_face(text), characters(text), trains("text", text), trains("unbroken", words), ranks(text)]) else 1


if __name__ == "__main__":
    sys.exit(main())
