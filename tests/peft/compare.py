"""compare.py: random models of `transformers` with adapters of `peft` to runs and back; scores are those of peft both ways.

    python tests/peft/compare.py build/mdl build/tests/convert_logits      in an empty directory
"""

import json
import pathlib
import subprocess
import sys

import torch
import transformers as hf
from peft import LoraConfig, PeftModel, get_peft_model

MDL, LOGITS = sys.argv[1:3]
VOCAB, WITHIN = 61, 1e-4
TOKENS = torch.randint(0, VOCAB, (24,), generator=torch.Generator().manual_seed(5)).tolist()
SIZES = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=48)
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
GPT2 = hf.GPT2Config(vocab_size=VOCAB, n_positions=48, n_embd=32, n_layer=2, n_head=4)
BLOOM = hf.BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=2, n_head=4)
MODELS = {
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig(**SIZES), dict(r=4, lora_alpha=6, target_modules=ALL)),
    "llama-two": (hf.LlamaForCausalLM, hf.LlamaConfig(**SIZES), dict(r=3, lora_alpha=16, target_modules=["q_proj", "v_proj"])),
    "llama-layer": (hf.LlamaForCausalLM, hf.LlamaConfig(**SIZES, tie_word_embeddings=True),
                    dict(r=2, lora_alpha=2, target_modules=ALL, layers_to_transform=[1])),
    "mistral": (hf.MistralForCausalLM, hf.MistralConfig(**SIZES, sliding_window=7), dict(r=2, lora_alpha=8, target_modules=ALL)),
    "gpt2": (hf.GPT2LMHeadModel, GPT2, dict(r=3, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "gpt2-attention": (hf.GPT2LMHeadModel, GPT2, dict(r=2, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True)),
    "bloom": (hf.BloomForCausalLM, BLOOM,
              dict(r=2, lora_alpha=8, target_modules=["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"])),
    "gemma": (hf.GemmaForCausalLM, hf.GemmaConfig(**SIZES, head_dim=8), dict(r=2, lora_alpha=8, target_modules=ALL)),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config(**SIZES, head_dim=8), dict(r=2, lora_alpha=8, target_modules=ALL)),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config(**SIZES), dict(r=2, lora_alpha=8, target_modules=ALL)),
}


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"status {done.returncode}: {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")


def scores_here(path):
    lines = subprocess.run([LOGITS, path, *map(str, TOKENS)], capture_output=True, text=True, check=True).stdout
    return torch.tensor([[float(word) for word in line.split()] for line in lines.strip().split("\n")])


def scores_there(model):
    with torch.no_grad():
        return model.eval()(torch.tensor([TOKENS])).logits[0]


def plain(path):
    return hf.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)


def apart(name, what, a, b, most=WITHIN):
    error = (a - b).abs().max().item()
    if not (error <= most and b.std().item() > 0.1 and a.shape == b.shape):
        sys.exit(f"{name}, {what}: scores differ by {error:.2e}")
    return error


def there_and_back(name, kind, config, lora):
    torch.manual_seed(7)
    model = kind(config)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) * 0.1)
    model.save_pretrained(f"{name}/hf")
    before = scores_there(model)
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **lora))
    with torch.no_grad():
        for key, value in adapted.named_parameters():
            if "lora_" in key:
                value.copy_(torch.randn_like(value) * 0.3)
    wanted = scores_there(adapted)
    adapted.save_pretrained(f"{name}/peft")
    if (wanted - before).abs().max() < 100 * WITHIN:
        sys.exit(f"{name}: adapters change nothing")

    run(MDL, "convert", f"{name}/hf", "--adapters", f"{name}/peft", "-o", f"{name}/run")
    there = apart(name, "to a run", scores_here(f"{name}/run"), wanted)
    run(MDL, "convert", f"{name}/run", "--to", "peft", "-o", f"{name}/back")
    apart(name, "and back", scores_there(PeftModel.from_pretrained(plain(f"{name}/hf"), f"{name}/back")), wanted, 1e-6)
    run(MDL, "convert", f"{name}/run", "--merge", "--to", "hf", "-o", f"{name}/merged")
    apart(name, "merged", scores_there(plain(f"{name}/merged")), wanted)
    print(f"{name}: scores within {there:.1e}")


def trained(name="llama"):
    """Adapters that were trained here, beside frozen weights that the checkpoint leaves out, go to peft."""
    pathlib.Path("text.bin").write_bytes(bytes(value % VOCAB if at % 2 == 0 else 0 for at, value in enumerate(range(4000))))
    text = pathlib.Path(f"{name}/run/model.mdl").read_text().replace('tokens("train.bin")', 'tokens("text.bin", u16)')
    pathlib.Path("own.mdl").write_text(text.replace("peak = 1e-4", "peak = 1e-2"))
    run(MDL, "train", "own.mdl", "--recipe", "converted", "--from", f"{name}/hf", "--save-trained", "--steps", 3, "-o", "trained",
        "--device", "cpu")
    run(MDL, "convert", "trained", "--to", "peft", "-o", "trained-peft")
    base = json.loads(pathlib.Path("trained-peft/adapter_config.json").read_text())["base_model_name_or_path"]
    after = scores_there(PeftModel.from_pretrained(plain(base), "trained-peft"))
    apart("trained", "to peft", after, scores_here("trained"))
    if (after - scores_there(plain(base))).abs().max() < 1e-3:
        sys.exit("three steps changed nothing")


def control(name="llama"):
    """With another scale, scores are others."""
    path = pathlib.Path(f"{name}/peft/adapter_config.json")
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"lora_alpha": said["lora_alpha"] + 1}))
    run(MDL, "convert", f"{name}/hf", "--adapters", f"{name}/peft", "-o", "wrong")
    if (scores_here("wrong") - scores_here(f"{name}/run")).abs().max() < 10 * WITHIN:
        sys.exit("a wrong scale is not noticed")


hf.utils.logging.set_verbosity_error()
hf.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
for each, (kind, config, lora) in MODELS.items():
    there_and_back(each, kind, config, lora)
trained()
control()
