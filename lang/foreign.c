// foreign.c: words and marks of other languages, and how this one says what they mean.
#include "lang/foreign.h"

#include "base/names.h"

#include <stddef.h>
#include <string.h>

typedef struct {
  const char *word, *help;
} Foreign;

#define REPEAT "write `repeat n as i { ... }`"
#define FUNCTION "write `fn f(x) { return ...; }`"
#define ASSIGN "a value needs no keyword: write `y = ...;`"
#define RENAME "axes have names and no order: to rename one, `x[a -> b]`"
#define SPLIT "axes are split and merged by name: `x[a -> (b, c)]`, `x[(b, c) -> a]`"
#define PRODUCT "a product that sums over axes is `dot(a, b over k)`"
#define BRANCH "write `if c { ... } else { ... }`; to choose for each element, `where(c, a, b)`"
#define NONE "leave it out: everything has a value"
#define REVERSED "with `axis b like a;` it is `x[a -> b][(size(a) - 1 - pos(a)) as index(b)]`"
#define LIKELIEST                                                                                                    \
  "the likeliest token is `(_, best) = top(logits over vocab to one);` with `axis one = 1;`, how often it is right " \
  "`mean(where(max(where(best == targets, 1, 0) over one) > 0, 1, 0))`"

static const Foreign statements[] = {
    {"for", REPEAT},
    {"foreach", REPEAT},
    {"loop", REPEAT},
    {"while", "the number of rounds is known before: write `repeat n as i { ... }`"},
    {"def", FUNCTION},
    {"func", FUNCTION},
    {"function", FUNCTION},
    {"lambda", FUNCTION},
    {"class", "write `model name { ... }` or `fn name(x) { ... }`"},
    {"let", ASSIGN},
    {"var", ASSIGN},
    {"val", ASSIGN},
    {"auto", ASSIGN},
    {"elif", "write `else if c { ... }`"},
    {"elseif", "write `else if c { ... }`"},
    {"from", "write `import std.nn;` or `import \"file.mdl\";`"},
    {"include", "write `import std.nn;` or `import \"file.mdl\";`"},
    {"print", "to see a value in each step: `output name = ...;`"},
    {"assert", "sizes and types are checked by themselves; to see a value: `output name = ...;`"},
    {"pass", "an empty block is `{ }`"},
    {"global", "constants and axes that stand outside of blocks are seen everywhere"},
    {"end", "blocks stand in `{ }`"},
};

static const Foreign values[] = {
    {"True", "write `true`"},
    {"yes", "write `true`"},
    {"no", "write `false`"},
    {"TRUE", "write `true`"},
    {"False", "write `false`"},
    {"FALSE", "write `false`"},
    {"None", NONE},
    {"null", NONE},
    {"nil", NONE},
    {"self", "there are no objects: parameters are declared where they are used, `param w: [a ; b];`"},
    {"this", "there are no objects: parameters are declared where they are used, `param w: [a ; b];`"},
    {"lambda", "write a function, `fn f(x) { return ...; }`, and give its name"},
    {"math", "functions stand alone: `sqrt(x)`, `log(x)`, `pi`"},
    {"infinity", "write `inf`"},
    {"Infinity", "write `inf`"},
};

static const Foreign functions[] = {
    {"matmul", PRODUCT},
    {"mm", PRODUCT},
    {"bmm", PRODUCT},
    {"einsum", PRODUCT},
    {"tensordot", PRODUCT},
    {"transpose", RENAME},
    {"permute", RENAME},
    {"swapaxes", RENAME},
    {"movedim", RENAME},
    {"unsqueeze", "a value that lacks an axis goes with one that has it: leave it out"},
    {"expand", "a value that lacks an axis goes with one that has it: leave it out"},
    {"broadcast_to", "a value that lacks an axis goes with one that has it: leave it out"},
    {"squeeze", "one position of an axis: `x[a: 0]`"},
    {"reshape", SPLIT},
    {"view", SPLIT},
    {"flatten", SPLIT},
    {"rearrange", SPLIT},
    {"split", "a part of an axis: `x[a: 0 .. 8 -> part]`; into two axes: `x[a -> (b, c)]`"},
    {"chunk", "a part of an axis: `x[a: 0 .. 8 -> part]`; into two axes: `x[a -> (b, c)]`"},
    {"cat", "write `concat(a over part, b over rest -> whole)`"},
    {"concatenate", "write `concat(a over part, b over rest -> whole)`"},
    {"arange", "write `pos(a)`: the positions of an axis"},
    {"range", "write `pos(a)`: the positions of an axis; to do something n times: `repeat n as i { ... }`"},
    {"len", "write `size(a)`"},
    {"flip", REVERSED},
    {"flipud", REVERSED},
    {"fliplr", REVERSED},
    {"reverse", REVERSED},
    {"reversed", REVERSED},
    {"detach", "write `stop(x)`"},
    {"stop_gradient", "write `stop(x)`"},
    {"no_grad", "write `stop(x)`"},
    {"pow", "write `x ^ 2`"},
    {"gather", "write `x[i]`, where i is an index of one of its axes"},
    {"index_select", "write `x[i]`, where i is an index of one of its axes"},
    {"masked_fill", "write `where(mask, value, x)`"},
    {"zeros", "write `0`: a number goes with every tensor"},
    {"zeros_like", "write `0`: a number goes with every tensor"},
    {"ones", "write `1`: a number goes with every tensor"},
    {"ones_like", "write `1`: a number goes with every tensor"},
    {"float", "write `x as real`"},
    {"Linear", "write `linear(x over a to b)`"},
    {"Embedding", "write `embedding(tokens over vocab to embed)`"},
    {"LayerNorm", "write `layer_norm(x over embed)`"},
    {"RMSNorm", "write `rms_norm(x over embed)`"},
    {"Dropout", "write `dropout(x, rate = 0.1)`"},
    {"scaled_dot_product_attention", "write `attention(q, k, v over hd, seq, key, causal = true)`"},
    {"CrossEntropyLoss", "write `mean(cross_entropy(logits, targets over vocab))`"},
    {"cross_entropy_loss", "write `mean(cross_entropy(logits, targets over vocab))`"},
    {"argmax", LIKELIEST},
    {"argmin", "its position too gives `top`: `(least, where_it_is) = top(-x over a to one);` with `axis one = 1;`"},
    {"topk", "write `(best, which) = top(x over a to k);` with `axis k = 2;`"},
    {"accuracy", LIKELIEST},
    {"randn", "write `draw_normal(x)`: random numbers with the axes of x"},
    {"rand", "write `draw_uniform(x)`: random numbers with the axes of x"},
};

#define OWN_UPDATE \
  "the library has adamw, sgd and lion; others are written: `update NAME(p, g, lr) { ... return p - lr * g; }`"
#define MUON                                                                                                          \
  "the library has adamw, sgd and lion; docs/language.md has it, under Updates: `update muon(p, g over in, out, lr) " \
  "{ ... }`"
static const Foreign updates[] = {
    {"muon", MUON},
    {"Muon", MUON},
    {"adafactor", OWN_UPDATE},
    {"shampoo", OWN_UPDATE},
    {"soap", OWN_UPDATE},
    {"lamb", OWN_UPDATE},
    {"sophia", OWN_UPDATE},
    {"rmsprop", OWN_UPDATE},
    {"adagrad", OWN_UPDATE},
    {"Adam", "write `adamw`; without decay it is Adam: `adamw(lr = 3e-4, decay = 0)`"},
    {"adam", "write `adamw`; without decay it is Adam: `adamw(lr = 3e-4, decay = 0)`"},
    {"AdamW", "write `adamw`"},
    {"SGD", "write `sgd`"},
};

#define NO_FP16 "half precision is `bf16`; it needs no scaled loss"
#define FP8 "those of 8 bits are `fp8_current`, `fp8_hybrid` and `fp8_block`"
static const Foreign precisions[] = {
    {"fp16", NO_FP16},
    {"f16", NO_FP16},
    {"float16", NO_FP16},
    {"half", NO_FP16},
    {"amp", "mixed precision is `bf16`: parameters and sums stay in fp32"},
    {"mixed", "mixed precision is `bf16`: parameters and sums stay in fp32"},
    {"bfloat16", "write `bf16`"},
    {"float32", "write `fp32`"},
    {"f32", "write `fp32`"},
    {"float64", "write `fp64`"},
    {"f64", "write `fp64`"},
    {"double", "write `fp64`"},
    {"fp8", FP8},
    {"float8", FP8},
    {"e4m3", FP8},
};

static const Foreign members[] = {
    {"shape", "the size of an axis is `size(a)`"},
    {"size", "the size of an axis is `size(a)`"},
    {"T", RENAME},
    {"mT", RENAME},
    {"dtype", "formats are chosen by the precision of the recipe"},
    {"device", "devices are chosen by the layout and the command line"},
    {"grad", "gradients are computed by themselves; an update gets one, `update f(p, g)`"},
};

#define IN_LAYOUT(what) "a layout says it: `layout NAME { ...; " what "; }`"
static const Foreign settings[] = {
    {"batch_size", "did you mean `batch`?"},
    {"batchsize", "did you mean `batch`?"},
    {"bs", "did you mean `batch`?"},
    {"global_batch_size", "did you mean `batch`?"},
    {"seq_len", "did you mean `seq`?"},
    {"seqlen", "did you mean `seq`?"},
    {"seq_length", "did you mean `seq`?"},
    {"sequence_length", "did you mean `seq`?"},
    {"block_size", "did you mean `seq`?"},
    {"context_length", "did you mean `seq`?"},
    {"lr", "it belongs to the optimizer: `optimizer adamw(lr = 3e-4);`, `--set optimizer.lr=3e-4`"},
    {"learning_rate", "it belongs to the optimizer: `optimizer adamw(lr = 3e-4);`, `--set optimizer.lr=3e-4`"},
    {"weight_decay", "it belongs to the optimizer: `optimizer adamw(decay = 0.1);`, `--set optimizer.decay=0.1`"},
    {"grad_clip", "it belongs to the optimizer: `optimizer adamw(clip = 1.0);`, `--set optimizer.clip=1.0`"},
    {"warmup", "it belongs to a schedule: `lr = cosine(peak = 3e-4, warmup = 100, steps = 2000)`"},
    {"warmup_steps", "it belongs to a schedule: `lr = cosine(peak = 3e-4, warmup = 100, steps = 2000)`"},
    {"epochs", "training goes by steps: `steps = ...;`"},
    {"num_epochs", "training goes by steps: `steps = ...;`"},
    {"max_steps", "did you mean `steps`?"},
    {"iterations", "did you mean `steps`?"},
    {"max_iters", "did you mean `steps`?"},
    {"gradient_accumulation_steps", "a layout says `microbatches = ...;`"},
    {"grad_accum", "a layout says `microbatches = ...;`"},
    {"gradient_accumulation", "a layout says `microbatches = ...;`"},
    {"dtype", "write `precision bf16;`"},
    {"vocab_size", "did you mean `vocab`?"},
    {"microbatches", IN_LAYOUT("microbatches = 4")},
    {"mesh", IN_LAYOUT("mesh dp = 4")},
    {"schedule", IN_LAYOUT("schedule zero_bubble")},
    {"recompute", IN_LAYOUT("recompute attention")},
    {"offload", IN_LAYOUT("offload layers")},
    {"compress", IN_LAYOUT("compress tp in layers")},
    {"capacity", IN_LAYOUT("capacity = 1.25")},
    {"overlap", IN_LAYOUT("overlap = false")},
    {"reproducible", IN_LAYOUT("reproducible = fast")},
};

static const Foreign assigned[] = {
    {"model", "it takes no `=`: write `model gpt(layers = 8);`"},
    {"data", "it takes no `=`: write `data text(\"corpus.txt\");`"},
    {"layout", "it takes no `=`: write `layout NAME;`"},
    {"precision", "it takes no `=`: write `precision bf16;`"},
    {"allow", "it takes no `=`: write `allow E016;`"},
    {"watch", "it takes no `=`: write `watch layers.*;`"},
};

static const Foreign sets[] = {
    {"optimizer",
     "an argument of it is `--set optimizer.lr=...`; another optimizer is another recipe, `--recipe NAME`"},
    {"data", "`mdl train` and `mdl eval` take other data by `--data FILE`"},
    {"layout", "another layout is `--layout NAME`"},
    {"precision", "another precision is `--precision NAME`"},
    {"model", "a size of the model is `--set NAME=VALUE`; another model of the text is `--set model=NAME`"},
    {"recipe", "another recipe is `--recipe NAME`"},
    {"freeze", "what is frozen is said in a recipe: choose another one, `--recipe NAME`"},
    {"watch", "what else is watched is `--watch NAME`"},
    {"allow", "which warnings are allowed is said in a recipe: choose another one, `--recipe NAME`"},
    {"mesh", "the size of a mesh axis is `--set mesh.dp=2`"},
    {"device", "`mdl train` takes `--device cpu|cuda`"},
};

static const char *find(const Foreign *list, size_t count, const char *word) {
  for (size_t i = 0; word && i < count; i++) {
    if (strcmp(list[i].word, word) == 0) {
      return list[i].help;
    }
  }
  return NULL;
}

#define FIND(list, word) find((list), sizeof(list) / sizeof *(list), (word))

#define PARTS "write `microbatches = 4;`"
#define AGAIN "write `recompute attention;`: it is computed again in the backward"
#define CUT "what is stored is cut by a rule: `state -> dp;`, `grad, state -> dp;` or `param, grad, state -> dp;`"
static const Foreign layouts[] = {
    {"zero", CUT},
    {"zero_stage", CUT},
    {"fsdp", CUT},
    {"gradient_accumulation", PARTS},
    {"gradient_accumulation_steps", PARTS},
    {"grad_accum", PARTS},
    {"gradient_checkpointing", AGAIN},
    {"activation_checkpointing", AGAIN},
    {"checkpoint", AGAIN},
    {"checkpointing", AGAIN},
    {"data_parallel", "write `mesh dp = 2; batch -> dp;`"},
    {"tensor_parallel", "write `mesh tp = 2; heads -> tp;`, with the axis that is cut"},
    {"pipeline_parallel", "write `mesh pp = 2; layers -> pp;`"},
};

// Parameters of functions and updates; the help is the name that they have here.
static const Foreign parameters[] = {
    {"weight_decay", "decay"},  {"wd", "decay"},          {"epsilon", "eps"},
    {"beta", "momentum"},       {"grad_clip", "clip"},    {"max_norm", "clip"},
    {"warmup_steps", "warmup"}, {"total_steps", "steps"}, {"num_steps", "steps"},
    {"max_steps", "steps"},     {"max_lr", "peak"},       {"learning_rate", "lr"},
    {"beta1", "betas"},         {"beta2", "betas"},       {"p", "rate"},
    {"is_causal", "causal"},
};

// Inputs that data feeds; the help is the name that they have here.
static const Foreign inputs[] = {
    {"x", "tokens"},           {"x_ids", "tokens"},    {"ids", "tokens"},    {"idx", "tokens"},
    {"input_ids", "tokens"},   {"text", "tokens"},     {"inputs", "tokens"}, {"y", "targets"},
    {"labels", "targets"},     {"label", "targets"},   {"next", "targets"},  {"loss_mask", "mask"},
    {"attention_mask", "doc"}, {"segment_ids", "doc"}, {"document", "doc"},  {"weights", "share"},
};

const char *foreign_input(const char *word) {
  return FIND(inputs, word);
}

// Parameters of schedules that are looked for in updates.
static const Foreign of_schedules[] = {
    {"peak", "peak"},      {"warmup", "warmup"},     {"warmup_steps", "warmup"},  {"warmup_iters", "warmup"},
    {"floor", "floor"},    {"min_lr", "floor"},      {"eta_min", "floor"},        {"steps", "steps"},
    {"max_lr", "peak"},    {"total_steps", "steps"}, {"lr_decay_iters", "steps"}, {"schedule", "peak"},
    {"scheduler", "peak"}, {"lr_scheduler", "peak"},
};

const char *foreign_of_schedule(const char *word) {
  return FIND(of_schedules, word);
}

const char *foreign_statement(const char *word) {
  return FIND(statements, word);
}

const char *foreign_name(const char *word) {
  return FIND(values, word);
}

const char *foreign_function(const char *word) {
  return FIND(functions, word);
}

const char *foreign_update(const char *word) {
  return FIND(updates, word);
}

const char *foreign_precision(const char *word) {
  return FIND(precisions, word);
}

const char *foreign_layout(const char *word) {
  return FIND(layouts, word);
}

const char *foreign_parameter(const char *word) {
  return FIND(parameters, word);
}

const char *foreign_member(const char *word) {
  return FIND(members, word);
}

const char *foreign_setting(const char *word) {
  return FIND(settings, word);
}

const char *foreign_assigned(const char *word) {
  return FIND(assigned, word);
}

const char *foreign_set(const char *word) {
  return FIND(sets, word);
}

// Marks that editors, web pages and papers put in the place of those of the keyboard.
static const char *printed_mark(const char *mark, int length) {
  static const struct {
    const char *marks, *help;
  } printed[] = {
      {"\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019\u201a\u201b", "strings stand in straight double quotes, `\"`"},
      {"\u2010\u2011\u2012\u2013\u2014\u2212", "minus is `-`"},
      {"\u00d7\u00b7\u22c5\u2217", "products are written with `*`; of matrices, `dot(x, w over a)`"},
      {"\u2192", "an arrow is `->`"},
      {"\u2264", "write `<=`"},
      {"\u2265", "write `>=`"},
      {"\u2260", "write `!=`"},
      {"\u00a0\u202f\u2009\u200b\ufeff",
       "it looks like a blank, or like nothing, and is none: put a plain one in its place"},
  };
  for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
    const char *at = printed[i].marks;
    for (int bytes; *at; at += bytes) {
      for (bytes = 1; ((unsigned char)at[bytes] & 0xC0) == 0x80; bytes++) {
      }
      if (bytes == length && strncmp(at, mark, (size_t)bytes) == 0) {
        return printed[i].help;
      }
    }
  }
  return NULL;
}

const char *foreign_mark(const char *mark, int length) {
  if (length > 1) {
    return printed_mark(mark, length);
  }
  switch (*mark) {
    case '@':
      return "a product of matrices is `dot(x, w over a)`; a label is `@name`, without a blank";
    case '?':
      return "to choose for each element, `where(c, a, b)`; at compile time, `if c { } else { }`";
    case '\\':
      return "a statement ends with `;`, so it may go on in the next line as it is";
    case '`':
      return "strings stand in double quotes";
    default:
      return NULL;
  }
}

bool foreign_module(const char *word) {
  static const char *const modules[] = {"nn", "F", "torch", "np", "numpy", "jnp", "jax", "tf", "std", "math", "self"};
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
    if (strcmp(modules[i], word) == 0) {
      return true;
    }
  }
  return false;
}

const char *foreign_misspelled(const char *word) {
  static const char *const starts[] = {"import", "axis",      "const",  "input",     "param",  "state",
                                       "fn",     "update",    "model",  "composite", "layout", "recipe",
                                       "carry",  "precision", "repeat", "return",    "output", "scan"};
  return text_closest(word, starts, (int)(sizeof starts / sizeof *starts));
}
