// fiber.h: coroutines with stacks of their own, for what stands in for the threads of a device.
//
// swapcontext of the C library asks the kernel for the mask of signals at each switch, which takes most of the time of
// whoever switches often. On x86-64 a switch is a few instructions here; elsewhere, and under ThreadSanitizer, it is
// swapcontext.
#ifndef MDL_TESTS_FIBER_H
#define MDL_TESTS_FIBER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

typedef struct {
  void *top;  // of its stack while it does not run: six registers, and where it goes on
} FiberContext;

void fiber_switch_stacks(void **from, void *to) __attribute__((visibility("hidden")));
__asm__(
    ".text\n"
    ".type fiber_switch_stacks, @function\n"
    "fiber_switch_stacks:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp, (%rdi)\n"
    "  mov %rsi, %rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
    "  ret\n"
    ".size fiber_switch_stacks, . - fiber_switch_stacks\n");

// The first switch to it calls `entry`, which ends by a switch to another one and does not return.
static inline void fiber_make(FiberContext *fiber, char *stack, size_t size, void (*entry)(void)) {
  void **top = (void **)(((uintptr_t)stack + size) & ~(uintptr_t)15);
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack, size);  // of calls that an earlier one never returned from
#endif
  *--top = NULL;  // nobody called it
  *--top = (void *)(uintptr_t)entry;
  for (int i = 0; i < 6; i++) {
    *--top = NULL;
  }
  fiber->top = top;
}

static inline void fiber_switch(FiberContext *from, const FiberContext *to) {
  fiber_switch_stacks(&from->top, to->top);
}

#else
#include <ucontext.h>

typedef struct {
  ucontext_t context;
} FiberContext;

static inline void fiber_make(FiberContext *fiber, char *stack, size_t size, void (*entry)(void)) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = size;
  fiber->context.uc_link = NULL;
  makecontext(&fiber->context, entry, 0);
}

static inline void fiber_switch(FiberContext *from, const FiberContext *to) {
  swapcontext(&from->context, &to->context);
}

#endif

#endif
