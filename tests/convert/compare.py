"""compare.py: random models of `transformers` to runs and back; scores are those of transformers both ways.

    python tests/convert/compare.py build/mdl build/tests/convert_logits models      in an empty directory
"""

import json
import pathlib
import shutil
import subprocess
import sys

import torch
import transformers as hf

MDL, LOGITS, TEXTS = sys.argv[1:4]
VOCAB, PLACES, WITHIN = 61, 48, 1e-4
LLAMA = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=PLACES)
GPT2 = dict(vocab_size=VOCAB, n_positions=PLACES, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1)
# Of 16 positions learned first, so that some rates are slowed down, some are not, and some in part.
SCALED = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}

MODELS = {
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA, rms_norm_eps=1e-5)),
    "llama-tied": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA, tie_word_embeddings=True, head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})),
    "llama-many": (hf.LlamaForCausalLM, hf.LlamaConfig(**(LLAMA | dict(num_key_value_heads=4)))),
    "llama3": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA, rope_parameters=SCALED)),
    "mistral": (hf.MistralForCausalLM, hf.MistralConfig(**LLAMA, sliding_window=None)),
    "mistral-window": (hf.MistralForCausalLM, hf.MistralConfig(**LLAMA, sliding_window=7)),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config(**LLAMA)),
    "qwen2-tied": (hf.Qwen2ForCausalLM, hf.Qwen2Config(**LLAMA, tie_word_embeddings=True)),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2)),
    "gpt2-narrow": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2, n_inner=40)),
    "gemma": (hf.GemmaForCausalLM, hf.GemmaConfig(**(LLAMA | dict(num_key_value_heads=1)), head_dim=16)),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config(**LLAMA, head_dim=16)),
    "qwen3-tied": (hf.Qwen3ForCausalLM, hf.Qwen3Config(**LLAMA, tie_word_embeddings=True, head_dim=8)),
    "mixtral": (hf.MixtralForCausalLM, hf.MixtralConfig(**LLAMA, num_local_experts=4)),
    "olmoe": (hf.OlmoeForCausalLM, hf.OlmoeConfig(**(LLAMA | dict(num_key_value_heads=4)), num_experts=4, num_experts_per_tok=2, eos_token_id=1)),
    "bloom": (hf.BloomForCausalLM, hf.BloomConfig(vocab_size=VOCAB, hidden_size=24, n_layer=2, n_head=6)),
}

# What a mapping cannot say is refused, with this word in the message.
REFUSED = {
    "rope_parameters.rope_type": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4})),
    "rope_parameters.factor": (hf.MistralForCausalLM, hf.MistralConfig(**LLAMA, rope_parameters=SCALED)),
    "attention_bias": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA, attention_bias=True)),
    "hidden_act": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA, hidden_act="gelu")),
    "use_sliding_window": (hf.Qwen2ForCausalLM, hf.Qwen2Config(**LLAMA, use_sliding_window=True, sliding_window=8, max_window_layers=1)),
    "activation_function": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2, activation_function="relu")),
    "slow_but_exact": (hf.BloomForCausalLM, hf.BloomConfig(vocab_size=VOCAB, hidden_size=24, n_layer=2, n_head=6, pretraining_tp=2, slow_but_exact=True)),
    "layer_norm_epsilon": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2, layer_norm_epsilon=1e-3)),
    "model_type 'opt'": (hf.OPTForCausalLM, hf.OPTConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, ffn_dim=48, word_embed_proj_dim=32)),
}


def run(*words, status=0):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != status:
        sys.exit(f"status {done.returncode} instead of {status}: {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def fresh(kind, config, seed):
    torch.manual_seed(seed)
    model = kind(config).eval()
    with torch.no_grad():
        for value in model.parameters():  # norms and biases too, so that each matters
            value.add_(torch.randn_like(value) * 0.1)
    return model


def scores_here(path, tokens):
    lines = run(LOGITS, path, *tokens).strip().split("\n")
    return torch.tensor([[float(word) for word in line.split()] for line in lines])


def compare(name, what, a, b, within=WITHIN):
    error = (a - b).abs().max().item()
    spread = b.std().item()
    if not (error <= within and spread > 0.1 and a.shape == b.shape):
        sys.exit(f"{name}, {what}: scores differ by {error:.2e}, their deviation is {spread:.2e}")
    return error


def load(path):
    model, said = hf.AutoModelForCausalLM.from_pretrained(path, output_loading_info=True, dtype=torch.float32)
    lacks = {key: value for key, value in said.items() if value}
    if lacks:
        sys.exit(f"{path}: transformers says {lacks}")
    return model.eval()


def there_and_back(name, kind, config):
    tokens = torch.randint(0, VOCAB, (24,), generator=torch.Generator().manual_seed(5)).tolist()
    model = fresh(kind, config, 7)
    with torch.no_grad():
        wanted = model(torch.tensor([tokens])).logits[0]
    model.save_pretrained(f"{name}/hf", max_shard_size="20KB" if name == "qwen2" else "5GB")
    run(MDL, "convert", f"{name}/hf", "-o", f"{name}/run")
    there = compare(name, "to a run", scores_here(f"{name}/run", tokens), wanted)
    run(MDL, "convert", f"{name}/run", "--to", "hf", "-o", f"{name}/back", *(["--shard", "1"] if name == "gpt2" else []))
    with torch.no_grad():
        back = load(f"{name}/back")(torch.tensor([tokens])).logits[0]
    compare(name, "and back", back, wanted, 1e-6)
    for entry, value in back_config(name).items():
        was = config_of(name).get(entry)
        if entry not in ("dtype", "torch_dtype") and was is not None and value != was:
            sys.exit(f"{name}: config.json says {entry} = {value}, it was {was}")
    print(f"{name}: scores within {there:.1e}")


def config_of(name):
    return json.loads(pathlib.Path(f"{name}/hf/config.json").read_text())


def back_config(name):
    return json.loads(pathlib.Path(f"{name}/back/config.json").read_text())


def types(name="llama"):
    """Weights of 16 bits are read, and written."""
    kind, config = MODELS[name]
    tokens = list(range(20))
    for dtype, option in (torch.bfloat16, "bf16"), (torch.float16, "f16"):
        fresh(kind, config, 9).to(dtype).save_pretrained(f"{option}/hf")
        with torch.no_grad():
            wanted = load(f"{option}/hf")(torch.tensor([tokens])).logits[0]
        run(MDL, "convert", f"{option}/hf", "-o", f"{option}/run")
        compare(option, "read", scores_here(f"{option}/run", tokens), wanted)
        run(MDL, "convert", f"{option}/run", "--to", "hf", "-o", f"{option}/back", "--dtype", option)
        with torch.no_grad():
            compare(option, "written", load(f"{option}/back")(torch.tensor([tokens])).logits[0], wanted, 1e-6)
        for key, value in hf.AutoModelForCausalLM.from_pretrained(f"{option}/back", dtype="auto").state_dict().items():
            if value.dtype != dtype:
                sys.exit(f"{option}: {key} was written as {value.dtype}")


def trained(name="llama"):
    """A run that was trained goes to transformers, which knows nothing of it."""
    tokens = list(range(16))
    pathlib.Path("text.bin").write_bytes(bytes(value % VOCAB if at % 2 == 0 else 0 for at, value in enumerate(range(4000))))
    text = pathlib.Path(f"{name}/run/model.mdl").read_text().replace('tokens("train.bin")', 'tokens("text.bin", u16)')
    pathlib.Path("own.mdl").write_text(text.replace("peak = 1e-5", "peak = 1e-2"))
    run(MDL, "train", "own.mdl", "--recipe", "converted", "--from", f"{name}/hf", "--steps", 3, "-o", "trained", "--device", "cpu")
    run(MDL, "convert", "trained", "--to", "hf", "-o", "trained-hf")
    with torch.no_grad():
        after = load("trained-hf")(torch.tensor([tokens])).logits[0]
        before = load(f"{name}/hf")(torch.tensor([tokens])).logits[0]
    compare("trained", "to hf", after, scores_here("trained", tokens))
    if (after - before).abs().max() < 1e-3:
        sys.exit("three steps changed nothing")


def bare_names():
    """Weights of the model without its head have no prefix."""
    model = fresh(*MODELS["gpt2"], 7)
    model.save_pretrained("bare/hf")
    from safetensors.torch import load_file, save_file

    path = "bare/hf/model.safetensors"
    save_file({key.removeprefix("transformer."): value for key, value in load_file(path).items()}, path)
    run(MDL, "convert", "bare/hf", "-o", "bare/run")
    tokens = [3, 1, 4, 1, 5]
    with torch.no_grad():
        compare("bare", "names", scores_here("bare/run", tokens), model(torch.tensor([tokens])).logits[0])


def older():
    """What transformers wrote before version 5: rope_theta and rope_scaling."""
    kind, config = MODELS["llama3"]
    tokens = list(range(24))
    model = fresh(kind, config, 4)
    model.save_pretrained("older/hf")
    path = pathlib.Path("older/hf/config.json")
    said = json.loads(path.read_text())
    scaled = said.pop("rope_parameters")
    said |= {"rope_theta": scaled.pop("rope_theta"), "rope_scaling": scaled}
    path.write_text(json.dumps(said))
    run(MDL, "convert", "older/hf", "-o", "older/run")
    run(MDL, "convert", "older/run", "--to", "hf", "-o", "older/back")
    with torch.no_grad():
        wanted = model(torch.tensor([tokens])).logits[0]
        compare("older", "to a run", scores_here("older/run", tokens), wanted)
        compare("older", "and back", load("older/back")(torch.tensor([tokens])).logits[0], wanted, 1e-6)


def control(name="llama"):
    """With halves of queries where neighbours are, scores are others."""
    text = pathlib.Path(TEXTS, "llama.hf").read_text()
    wrong = text.replace("[kv_heads group hd, embed]", "[kv_heads group interleaved(hd), embed]")
    pathlib.Path("wrong.hf").write_text(wrong)
    run(MDL, "convert", f"{name}/hf", "-o", "wrong", "--mapping", "wrong.hf")
    tokens = list(range(24))
    with torch.no_grad():
        error = (scores_here("wrong", tokens) - load(f"{name}/hf")(torch.tensor([tokens])).logits[0]).abs().max().item()
    if wrong == text or error < 100 * WITHIN:
        sys.exit(f"a wrong mapping is not noticed: scores differ by {error:.1e}")


def refused():
    for word, (kind, config) in REFUSED.items():
        shutil.rmtree("refused", ignore_errors=True)
        fresh(kind, config, 3).save_pretrained("refused")
        said = run(MDL, "convert", "refused", "-o", "refused-run", status=1)
        if word not in said or pathlib.Path("refused-run").exists():
            sys.exit(f"refused for another reason than {word}: {said}")


hf.utils.logging.set_verbosity_error()
hf.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
for each, (kind, config) in MODELS.items():
    there_and_back(each, kind, config)
types()
trained()
bare_names()
older()
control()
refused()
