// attention.c: see attention.h.
#include "runtime/cuda/attention.h"

static const double ENOUGH = 1.02, ROUND_SECONDS = 2e-3;  // of cuDNN's time; of launches that are timed together

enum { ROUNDS = 4 };

const char *attention_form(const AttentionChoice *choice) {
  return choice->own && choice->takes_own ? choice->own->kernel.form : cudnn_attention_form(choice->library);
}

void attention_find(AttentionChoice *choice, Tuning *tuning) {
  uint8_t own = 1;
  choice->tuned = !choice->own || (tuning && tuning_find(tuning, choice->key, &own, sizeof own));
  choice->takes_own = choice->own && own;
}

bool attention_launch(const Cuda *cuda, Cudnn *cudnn, const AttentionChoice *choice, const uint64_t *slots,
                      CudaAddress scratch, bool first, CudaStream stream, Error *error) {
  return choice->own && choice->takes_own
             ? modules_launch(cuda, choice->own, slots, scratch, first, stream, error)
             : cudnn_attention_launch(cudnn, choice->library, slots, scratch, stream, error);
}

// Seconds of one launch, the least of some rounds.
static bool time_one(const Cuda *cuda, Cudnn *cudnn, const AttentionChoice *choice, const uint64_t *slots,
                     CudaAddress scratch, CudaStream stream, const CudaEvent event[2], double *best, Error *error) {
  int launches = 1;
  *best = 0;
  for (int round = 0; round <= ROUNDS; round++) {
    float milliseconds = 0;
    bool good = cuda_check(cuda, cuda->event_record(event[0], stream), "timing attention", error);
    for (int i = 0; i < launches && good; i++) {
      good = attention_launch(cuda, cudnn, choice, slots, scratch, true, stream, error);
    }
    if (!good || !cuda_check(cuda, cuda->event_record(event[1], stream), "timing attention", error) ||
        !cuda_check(cuda, cuda->event_synchronize(event[1]), "timing attention", error) ||
        !cuda_check(cuda, cuda->event_elapsed(&milliseconds, event[0], event[1]), "timing attention", error)) {
      return false;
    }
    const double seconds = (double)milliseconds / 1000 / launches;
    if (round == 0) {  // warms up, and says how many launches are long enough to be timed
      const double wanted = ROUND_SECONDS / (seconds > 1e-6 ? seconds : 1e-6);
      launches = wanted < 2 ? 2 : wanted > 50 ? 50 : (int)wanted;
    } else if (*best == 0 || seconds < *best) {
      *best = seconds;
    }
  }
  return true;
}

bool attention_tune(const Cuda *cuda, Cudnn *cudnn, AttentionChoice *choice, const uint64_t *slots, CudaAddress scratch,
                    CudaStream stream, Tuning *tuning, Error *error) {
  CudaEvent event[2] = {NULL, NULL};
  double seconds[2] = {0, 0};  // cuDNN's, ours
  bool good = true;
  for (int i = 0; i < 2 && good; i++) {
    good = cuda_check(cuda, cuda->event_create(&event[i], CUDA_EVENT_DEFAULT), "making an event", error);
  }
  for (int own = 0; own < 2 && good; own++) {
    choice->takes_own = own != 0;
    good = time_one(cuda, cudnn, choice, slots, scratch, stream, event, &seconds[own], error);
  }
  for (int i = 0; i < 2 && event[i]; i++) {
    cuda->event_destroy(event[i]);
  }
  if (good) {
    const uint8_t own = seconds[1] <= ENOUGH * seconds[0];
    choice->tuned = true;
    choice->takes_own = own;
    if (tuning) {
      tuning_add(tuning, choice->key, &own, sizeof own, seconds[own] * 1e6);
    }
  }
  return good;
}
