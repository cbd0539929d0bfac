// target.c: the table of targets.
#include "kernels/cuda/target.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { KIB = 1024 };

static const struct {
  const char *name;
  CudaTarget figures;
} targets[] = {
    {"sm_80", {108, 163 * KIB, false, NULL}},    // A100
    {"sm_86", {84, 99 * KIB, false, NULL}},      // A40, RTX A6000
    {"sm_89", {142, 99 * KIB, false, NULL}},     // L40, RTX 6000 Ada
    {"sm_90a", {132, 227 * KIB, true, NULL}},    // H100, H200
    {"sm_100a", {148, 227 * KIB, false, NULL}},  // B200
    {"compute_80", {108, 99 * KIB, false, NULL}},
};

bool cuda_target_find(const char *name, CudaTarget *target) {
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    if (strcmp(targets[i].name, name) == 0) {
      *target = targets[i].figures;
      return true;
    }
  }
  return false;
}

bool cuda_target_is_text(const char *name) {
  return strncmp(name, "compute_", 8) == 0;
}

int cuda_target_serves(const char *name, int major, int minor) {
  const bool text = cuda_target_is_text(name);
  const int chip = 10 * major + minor;
  int number = 0;
  char suffix = '\0';
  if (sscanf(name, text ? "compute_%d%c" : "sm_%d%c", &number, &suffix) < 1) {
    return 0;
  }
  if (number == chip) {
    return text ? 1 : 3;
  }
  if (suffix != '\0' || number > chip) {
    return 0;
  }
  return text ? 1 : number / 10 == major ? 2 : 0;
}
