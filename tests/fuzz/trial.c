// trial.c: a process for each text; where it ended, by the functions on its stack.
#define _GNU_SOURCE  // dl_iterate_phdr, sigabbrev_np
#include "tests/fuzz/trial.h"

#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAMES = 300, SIGNAL_STACK = 1 << 18, HANG_SECONDS = 120, WRONG_STATUS = 99 };
static const rlim_t memory_limit = (rlim_t)3 << 30;

typedef struct {  // in memory that parent and child share
  TargetReport report;
  int signal;  // 0: a sanitizer
  int frame_count;
  void *frames[FRAMES];
} Shared;

static Shared *shared;
static double seconds_limit;
static char path[64];

// Sanitizers call this before they end the process; without them it does not exist.
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void forget(void) {
  unlink(path);
}

bool trial_prepare(double seconds) {
  void *frames[4];
  backtrace(frames, 4);  // loads what it needs, now that there is memory
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  seconds_limit = seconds;
  snprintf(path, sizeof path, "/tmp/mdl-fuzz-%d.mdl", (int)getpid());
  atexit(forget);
  return shared != MAP_FAILED;
}

static void keep_frames(void) {
  shared->frame_count = backtrace(shared->frames, FRAMES);
}

static void ended(int signal) {
  shared->signal = signal;
  keep_frames();
  _exit(WRONG_STATUS);
}

static _Noreturn void child(void) {
  static char stack[SIGNAL_STACK];
  stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_handler = ended, .sa_flags = SA_ONSTACK};
  const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF, SIGALRM};
  int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, 0);
  dup2(nowhere, 1);
  dup2(nowhere, 2);
  sigaltstack(&other, NULL);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    sigaction(signals[i], &action, NULL);
  }
  if (__sanitizer_set_death_callback) {
    __sanitizer_set_death_callback(keep_frames);
  } else {
    setrlimit(RLIMIT_AS, &(struct rlimit){memory_limit, memory_limit});
  }
  alarm(HANG_SECONDS);
  target_text(path, &shared->report);
  _exit(shared->report.wrong ? WRONG_STATUS : 0);
}

// Where the program lies in memory: the first object is the program itself.
static int first_object(struct dl_phdr_info *info, size_t size, void *base) {
  (void)size;
  *(uintptr_t *)base = info->dlpi_addr;
  return 1;
}

static bool is_driver(const char *name) {
  return name[0] == '_' || name[0] == '?' || strcmp(name, "ended") == 0 || strcmp(name, "keep_frames") == 0 ||
         strncmp(name, "raise", 5) == 0 || strcmp(name, "abort") == 0 || strstr(name, "sanitizer");
}

// The innermost functions of our own; of what took too long, the outermost below the compiler's driver.
static void name_frames(Trial *trial, bool slow) {
  static const char *const drivers[] = {"run_passes",  "make_program", "plan_new",     "compile_plans",
                                        "target_text", "compile_one",  "compile_check"};
  char command[FRAMES * 20 + 100], line[1024], before[100] = "";
  uintptr_t base = 0;
  dl_iterate_phdr(first_object, &base);
  int length = snprintf(command, sizeof command, "addr2line -i -f -e /proc/%d/exe", (int)getpid());
  for (int i = 0; i < shared->frame_count && i < 80; i++) {
    length += snprintf(command + length, sizeof command - (size_t)length, " %#zx",
                       (size_t)((uintptr_t)shared->frames[i] - base - 1));
  }
  FILE *names = popen(command, "r");
  int found = 0;
  for (int i = 0; names && fgets(line, sizeof line, names); i++) {
    line[strcspn(line, "\n")] = '\0';
    if (i % 2 == 1 || is_driver(line)) {
      continue;
    }
    bool driver = false;
    for (size_t j = 0; j < sizeof drivers / sizeof *drivers; j++) {
      driver |= strcmp(line, drivers[j]) == 0;
    }
    if (slow && driver) {
      snprintf(trial->signature + strlen(trial->signature), 120, " in %.99s", before);
      break;
    }
    if (!slow && found++ < 2) {
      snprintf(trial->signature + strlen(trial->signature), 90, "%s%.80s", found == 1 ? " in " : " of ", line);
    }
    snprintf(before, sizeof before, "%.99s", line);
  }
  if (names) {
    pclose(names);
  }
}

// A message without names, numbers and the operation it speaks of.
static void plain_words(char *out, size_t size, const char *message) {
  size_t length = 0;
  bool quoted = false;
  for (; *message && length + 2 < size && strncmp(message, ", in: ", 6) != 0; message++) {
    bool mark = *message == '\'' || *message == '`';
    quoted ^= mark;
    if (mark || (!quoted && (*message < '0' || *message > '9'))) {
      out[length++] = *message;
    }
  }
  out[length] = '\0';
}

Trial trial_run(const char *text, size_t length) {
  Trial trial = {.report = &shared->report};
  FILE *file = fopen(path, "w");
  if (!file || fwrite(text, 1, length, file) != length || fclose(file) != 0) {
    perror(path);
    exit(2);
  }
  memset(shared, 0, sizeof *shared);
  shared->report.seconds = seconds_limit;
  shared->report.alarm = true;
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0) {
    perror("fork");
    exit(2);
  }
  if (pid == 0) {
    child();
  }
  int status = 0;
  struct rusage usage;
  wait4(pid, &status, 0, &usage);
  trial.failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  const char *said = strstr(shared->report.said, ": ");
  if (trial.failed && shared->report.wrong && said) {
    plain_words(trial.signature, sizeof trial.signature, said + 2);
  } else if (trial.failed) {
    const int signal = shared->signal ? shared->signal : WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const bool slow = signal == SIGPROF || signal == SIGALRM;
    snprintf(trial.signature, sizeof trial.signature, "%s",
             slow     ? "slow"
             : signal ? sigabbrev_np(signal)
                      : "sanitizer");
    name_frames(&trial, slow);
  }
  return trial;
}
