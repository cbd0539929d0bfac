// api.c: trains a model through the C interface, looks at a parameter after each step, and reads an error as data.
//
//   cc api.c $(pkg-config --cflags --libs mdl) -lm -o api && ./api corpus.txt
#include <math.h>
#include <mdl.h>
#include <stdio.h>

// A text without a file: what it is called is said beside it.
static const char text[] =
    "import std.nn;\n"
    "model bigram {\n"
    "  axis batch, seq, vocab = 256, embed = 32;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  x = embedding(tokens over vocab to embed, name = table);\n"
    "  logits = linear(x over embed to vocab, name = head);\n"
    "  loss = mean(cross_entropy(logits, targets over vocab));\n"
    "}\n"
    "recipe tiny {\n"
    "  model bigram();\n"
    "  data text(\"corpus.txt\", tokenizer = bytes);\n"
    "  batch = 4;\n"
    "  seq = 32;\n"
    "  optimizer adamw(lr = constant(peak = 1e-2));\n"
    "}\n";

static void show(void *context, const MdlDiagnostic *d) {
  (void)context;
  fprintf(stderr, "%s:%d:%d: %s[%s]: %s\n", d->file ? d->file : "?", d->line, d->column, d->severity, d->code,
          d->message);
}

// Behind each step: the largest element of a parameter, where it lies.
static bool step(void *context, MdlTrainer *trainer, const MdlStep *now) {
  const char *name = context;
  MdlValue value;
  MdlError error;
  if (mdl_trainer_value(trainer, name, &value, &error)) {
    fprintf(stderr, "%s\n", error.text);
    return false;
  }
  const float *data = value.data;  // f32, in memory of the host: this example trains on the CPU
  float largest = 0;
  for (int64_t i = 0; i < value.size[0]; i++) {
    for (int64_t j = 0; j < value.size[1]; j++) {
      largest = fmaxf(largest, fabsf(data[i * value.stride[0] + j * value.stride[1]]));
    }
  }
  printf("step %lld of %lld: loss %.4f, %s [%s %lld, %s %lld] up to %.4f\n", (long long)now->step,
         (long long)now->steps, now->loss, value.name, value.axis[0], (long long)value.size[0], value.axis[1],
         (long long)value.size[1], largest);
  return true;
}

int main(int argc, char **argv) {
  MdlError error;
  MdlPlan *plan;
  MdlTrainResult result;
  const MdlCompileOptions compile = {.text = text, .diagnostic = show};
  if (mdl_compile("bigram.mdl", &compile, &plan, &error)) {
    fprintf(stderr, "%s\n", error.text);
    return error.status;
  }
  MdlTrainOptions train = {MDL_TRAIN_DEFAULTS, .device = "cpu"};
  train.steps = 5;
  train.data = argc > 1 ? argv[1] : NULL;
  train.step = step;
  train.context = "head.w";
  const MdlStatus status = mdl_train(plan, &train, &result, &error);
  if (status == MDL_DONE) {
    printf("%s is at step %lld\n", result.run, (long long)result.step);
  } else {
    fprintf(stderr, "%s\n", error.text);
  }
  mdl_plan_close(plan);
  return status;
}
