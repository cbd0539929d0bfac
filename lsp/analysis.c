// analysis.c: what the compiler says of an open text, found by a process of its own.
#include "lsp/analysis.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/json_guard.h"
#include "base/options.h"
#include "lsp/record.h"
#include "lsp/syntax.h"

static const size_t ANALYSIS_MEMORY = (size_t)2 << 30;
static const char source_name[] = "mdlc";
enum { LSP_ERROR = 1, LSP_WARNING = 2, LSP_INFORMATION = 3, LSP_UNNECESSARY = 1 };

double analysis_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// --- what is said ---

typedef struct {
  const Workspace *workspace;
  const Document *document;
  Arena *arena;
  const Diag *diag;
  const char *left_out;  // what the settings ask for and the text does not have; or NULL
} Answer;

static const Source *source_of(const Answer *a, Span span) {
  return span.file >= 0 && span.file < a->diag->sources.count ? &a->diag->sources.at[span.file] : NULL;
}

// The URI of a source file; NULL for what is no file, such as the value of a setting.
static const char *uri_of(const Answer *a, Span span) {
  const Source *source = source_of(a, span);
  return source ? workspace_uri(a->workspace, a->arena, source->path) : NULL;
}

static json_t *span_range(const Answer *a, Span span) {
  const Source *source = source_of(a, span);
  return range_json(source->text, source->length, span.begin, span.end, a->workspace->encoding);
}

static json_t *start_of_text(void) {
  const Position first = {0, 0};
  return json_pack("{s:o, s:o}", "start", position_json(first), "end", position_json(first));
}

static json_t *related(const Answer *a, const Diagnostic *d) {
  const char *uri = uri_of(a, d->related);
  if (!uri) {
    return NULL;
  }
  json_t *location = json_pack("{s:o, s:o}", "uri", json_text(uri), "range", span_range(a, d->related));
  return json_pack("[{s:o, s:o}]", "location", location, "message",
                   json_text(d->related_label ? d->related_label : "see also here"));
}

static json_t *diagnostic(const Answer *a, const Diagnostic *d, bool placed) {
  Buffer text = {0};
  const Source *source = source_of(a, d->span);
  if (!placed && source) {
    buffer_format(&text, "in %s: ", source->path);
  }
  buffer_text(&text, d->message);
  if (d->label) {
    buffer_format(&text, "\n%s", d->label);
  }
  if (d->help) {
    buffer_format(&text, "\nhelp: %s", d->help);
  }
  json_t *json =
      json_pack("{s:o, s:i, s:s, s:s, s:o}", "range", placed ? span_range(a, d->span) : start_of_text(), "severity",
                d->severity == SEVERITY_ERROR     ? LSP_ERROR
                : d->severity == SEVERITY_WARNING ? LSP_WARNING
                                                  : LSP_INFORMATION,
                "code", error_code_name(d->code), "source", source_name, "message",
                json_text(text.text ? text.text : d->message));
  buffer_free(&text);
  if (d->code == E016) {  // nothing reads it: editors write it fainter
    json_object_set_new(json, "tags", json_pack("[i]", LSP_UNNECESSARY));
  }
  json_t *other = source_of(a, d->related) ? related(a, d) : NULL;
  if (other) {
    json_object_set_new(json, "relatedInformation", other);
  }
  return json;
}

// One that has no place: it stands at the beginning.
static json_t *remark(int severity, ErrorCode code, const char *text) {
  return json_pack("{s:o, s:i, s:s, s:s, s:o}", "range", start_of_text(), "severity", severity, "code",
                   error_code_name(code), "source", source_name, "message", json_text(text));
}

static json_t *diagnostics(const Answer *a) {
  json_t *all = json_pack("{s:[]}", a->document->uri);
  const Diag shown = diag_shown(a->diag);
  if (a->left_out) {
    json_array_append_new(json_object_get(all, a->document->uri), remark(LSP_INFORMATION, E010, a->left_out));
  }
  for (int i = 0; i < shown.all.count; i++) {
    const Diagnostic *d = &shown.all.at[i];
    const char *uri = uri_of(a, d->span), *where = uri ? uri : a->document->uri;
    if (d->code == E036 && d->span.file < 0) {
      continue;  // a text of functions alone has no model
    }
    if (!json_object_get(all, where)) {
      json_object_set_new(all, where, json_array());
    }
    json_array_append_new(json_object_get(all, where), diagnostic(a, d, uri != NULL));
  }
  return all;
}

static json_t *files(const Answer *a) {
  json_t *list = json_array();
  char resolved[PATH_MAX];
  for (int i = 0; i < a->diag->sources.count; i++) {
    const char *path = a->diag->sources.at[i].path;
    json_array_append_new(list, json_text(realpath(path, resolved) ? resolved : path));
  }
  return list;
}

static json_t *names(const Answer *a, const Record *record) {
  json_t *all = json_object();
  for (int i = 0; i < record->all.count; i++) {
    const RecordEntry *entry = &record->all.at[i];
    const Source *source = source_of(a, entry->span);
    const Document *open = source ? workspace_find_path(a->workspace, source->path) : NULL;
    if (!open) {
      continue;
    }
    if (!json_object_get(all, open->path)) {
      json_object_set_new(all, open->path, json_array());
    }
    json_array_append_new(json_object_get(all, open->path),
                          json_pack("[I, I, b, o, o]", (json_int_t)entry->span.begin, (json_int_t)entry->span.end,
                                    (int)entry->call, json_text(entry->title), json_text(entry->detail)));
  }
  return all;
}

static void say(int file, json_t *answer) {
  char *text = json_dumped(answer, JSON_COMPACT);
  const size_t length = text ? strlen(text) : 0;
  if (text) {
    text[length] = '\n';  // in place of its zero byte
  }
  for (size_t at = 0; text && at <= length;) {
    const ssize_t written = write(file, text + at, length + 1 - at);
    if (written < 0 && errno != EINTR) {
      break;
    }
    at += written > 0 ? (size_t)written : 0;
  }
  json_guard_free(text);
  json_decref(answer);
}

// The settings are for all texts: what one of them does not declare is left out for it. Nothing is said of a text with
// an error that may hide declarations.
static void choose(const Workspace *workspace, const Document *document, CompileOptions *options, Arena *arena,
                   const char **left_out) {
  const char **const wanted[] = {&options->recipe, &options->layout, &options->precision};
  static const NameSpace space[] = {SPACE_RECIPE, SPACE_LAYOUT, SPACE_PRECISION};
  static const char *const what[] = {"recipe", "layout", "precision"};
  Syntax syntax;
  const bool good = syntax_read(&syntax, workspace, document);
  for (int i = 0; good && i < 3; i++) {
    const char *name = *wanted[i];
    if (!name || strchr(name, ' ') || unit_find(&syntax.unit, space[i], name_of(syntax.unit.names, name))) {
      continue;
    }
    if (syntax.whole) {
      *left_out = arena_format(arena, "%s%sthe settings ask for the %s '%s', which this text does not have",
                               *left_out ? *left_out : "", *left_out ? "; " : "", what[i], name);
    }
    *wanted[i] = NULL;
  }
  syntax_free(&syntax);
}

static bool analyse(const Workspace *workspace, const Document *document, bool brief, int file) {
  Arena *arena = arena_create();
  if (!arena) {
    return false;
  }
  Diag *diag = diag_create(arena);
  Record *record = record_create(arena);
  CompileOptions options = workspace_options(workspace, arena, document);
  const char *left_out = NULL;
  choose(workspace, document, &options, arena, &left_out);
  options.memory = ANALYSIS_MEMORY;
  options.brief = brief;
  options.text_watch = &record->text;
  options.watch = brief ? NULL : &record->pass;
  const bool good = compile_check(arena, diag, &options);
  const Answer a = {workspace, document, arena, diag, left_out};
  json_t *answer = json_pack("{s:o, s:o, s:o, s:I, s:b}", "diagnostics", diagnostics(&a), "files", files(&a), "names",
                             names(&a, record), "version", (json_int_t)document->version, "whole", !brief || !good);
  if (record->divided) {
    json_object_set_new(answer, "parameters", json_pack("[I, i]", (json_int_t)record->parameters, record->tensors));
  }
  say(file, answer);
  arena_destroy(arena);
  return good;
}

// --- its process ---

bool analysis_begin(Analysis *analysis, const Workspace *workspace, const Document *document) {
  int ends[2];
  analysis_end(analysis);
  char *path = strdup(document->path);
  if (!path || pipe(ends) != 0) {
    free(path);
    return false;
  }
  const pid_t parent = getpid(), process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read what it says
    if (getppid() == parent) {
      close(ends[0]);
      nice(5);
      if (analyse(workspace, document, true, ends[1])) {  // else the passes have nothing to say
        analyse(workspace, document, false, ends[1]);
      }
    }
    _exit(0);
  }
  close(ends[1]);
  if (process < 0) {
    free(path);
    close(ends[0]);
    return false;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  *analysis = (Analysis){.process = process, .pipe = ends[0], .path = path};
  analysis->version = document->version;
  analysis->begun = analysis_clock();
  return true;
}

// The first line of what was said, taken out; NULL: it is not whole.
static json_t *take_line(Buffer *said) {
  char *end = said->text && !said->failed ? memchr(said->text, '\n', said->length) : NULL;
  if (!end) {
    return NULL;
  }
  const size_t length = (size_t)(end - said->text);
  json_t *answer = json_loadb(said->text, length, JSON_ALLOW_NUL, NULL);
  said->length -= length + 1;
  memmove(said->text, end + 1, said->length);
  return answer;
}

bool analysis_read(Analysis *analysis, json_t **result, const char **why) {
  char bytes[1 << 14];
  ssize_t got;
  while ((got = read(analysis->pipe, bytes, sizeof bytes)) > 0) {
    buffer_bytes(&analysis->said, bytes, (size_t)got);
  }
  const bool open = got < 0 && (errno == EAGAIN || errno == EINTR);
  *result = take_line(&analysis->said);
  if (open || *result) {
    return false;
  }
  int status = 0;
  while (waitpid(analysis->process, &status, 0) < 0 && errno == EINTR) {
  }
  analysis->process = 0;
  const bool starved = analysis->said.failed || (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_MEMORY);
  *why = starved ? NULL : WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it said nothing";
  analysis_end(analysis);
  return true;
}

void analysis_end(Analysis *analysis) {
  if (analysis->process > 0) {
    kill(analysis->process, SIGKILL);
    while (waitpid(analysis->process, NULL, 0) < 0 && errno == EINTR) {
    }
  }
  if (analysis->path) {
    close(analysis->pipe);
  }
  free(analysis->path);
  buffer_free(&analysis->said);
  *analysis = (Analysis){0};
}

json_t *analysis_failed(const Document *document, const char *why, bool bug) {
  json_t *said = remark(bug ? LSP_ERROR : LSP_INFORMATION, bug ? E099 : E090, why);
  json_t *all = document->fresh
                    ? json_deep_copy(document->analysis)
                    : json_pack("{s:{s:[]}, s:[o], s:{}, s:I}", "diagnostics", document->uri, "files",
                                json_text(document->path), "names", "version", (json_int_t)document->version);
  json_array_append_new(json_object_get(json_object_get(all, "diagnostics"), document->uri), said);
  json_object_set_new(all, "whole", json_true());
  return all;
}
