// server.c: a language server: what `mdlc lsp` is.
//
// One thread reads messages and answers them from syntax and from the last analysis. What the compiler says is found by
// a process beside it (analysis.h), a short while after the last change; a change ends the one that runs.
#include "lsp/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lsp/analysis.h"
#include "lsp/answer.h"
#include "lsp/frame.h"
#include "lsp/publish.h"

static const double PAUSE = 0.12;         // from the last change to an analysis
static const double ANSWER_WITHIN = 1.5;  // what a hover waits for the first half of one
static const double ANSWER_WHOLE = 0.3;   // and for all of it

enum {  // errors of JSON-RPC and of the protocol
  RPC_PARSE = -32700,
  RPC_INVALID = -32600,
  RPC_NO_METHOD = -32601,
  RPC_PARAMETERS = -32602,
  RPC_NOT_INITIALIZED = -32002,
  RPC_FAILED = -32803
};

typedef struct {
  Workspace workspace;
  FrameReader reader;
  Analysis analysis;
  json_t *published;
  const char *version;
  int in, out;
  bool initialized, shut_down, over;
  int status;
} Server;

static void *json_memory(size_t size) {
  void *memory = malloc(size);
  if (!memory && size > 0) {
    frame_exhausted();
  }
  return memory;
}

static void send_message(Server *s, json_t *message) {
  if (!frame_write(s->out, message)) {
    s->over = true;  // nobody listens
    s->status = 1;
  }
}

static void send_result(Server *s, const json_t *id, json_t *result) {
  send_message(s, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result ? result : json_null()));
}

static void send_error(Server *s, const json_t *id, int code, const char *why) {
  json_t *message = json_pack("{s:s, s:{s:i, s:s}}", "jsonrpc", "2.0", "error", "code", code, "message", why);
  json_object_set_new(message, "id", id ? json_deep_copy(id) : json_null());
  send_message(s, message);
}

static void notify(Server *s, const char *text) {
  send_message(s, json_pack("{s:s, s:s, s:{s:i, s:s}}", "jsonrpc", "2.0", "method", "window/logMessage", "params",
                            "type", 2, "message", text));
}

// --- analyses ---

static void mark(Server *s, Document *document, double due) {
  document->dirty = true;
  document->fresh = false;
  document->due = due;
  if (s->analysis.process && strcmp(s->analysis.path, document->path) == 0) {
    analysis_end(&s->analysis);
  }
}

static void mark_all(Server *s) {
  for (int i = 0; i < s->workspace.count; i++) {
    mark(s, s->workspace.documents[i], analysis_clock());
  }
}

// The document, and those that read it.
static void mark_readers(Server *s, Document *document, double due) {
  mark(s, document, due);
  for (int i = 0; i < s->workspace.count; i++) {
    Document *other = s->workspace.documents[i];
    const json_t *files = json_object_get(other->analysis, "files"), *one;
    size_t j;
    json_array_foreach((json_t *)files, j, one) {
      if (other != document && strcmp(json_string_value(one), document->path) == 0) {
        mark(s, other, due);
      }
    }
  }
}

static void take(Server *s, Document *document, json_t *result) {
  if (!document) {
    json_decref(result);
    return;
  }
  json_decref(document->analysis);
  document->analysis = result;
  document->fresh = true;
  document->dirty = !json_is_true(json_object_get(result, "whole"));
  s->over |= !publish(&s->workspace, s->published, document, s->out);
}

// Takes what the analysis that runs has said, if that is all of it, or ends it where it takes too long.
static void analysis_look(Server *s) {
  if (!s->analysis.process) {
    return;
  }
  Document *document = workspace_find_path(&s->workspace, s->analysis.path);
  const double limit = s->workspace.analysis_limit;
  json_t *result;
  const char *why;
  char text[256];
  bool ended;
  while (!(ended = analysis_read(&s->analysis, &result, &why)) && result) {
    take(s, document, result);
  }
  if (ended && !why && document && document->dirty) {
    take(s, document, analysis_failed(document, "there was no memory to check this text", false));
  } else if (ended && document && document->dirty) {
    snprintf(text, sizeof text, "checking this text has failed (%s): a bug of the compiler; please report the text",
             why);
    take(s, document, analysis_failed(document, text, true));
  } else if (!ended && analysis_clock() > s->analysis.begun + limit) {
    analysis_end(&s->analysis);
    snprintf(text, sizeof text, "checking takes more than %.3g s and was stopped; `mdlc check` does all of it", limit);
    take(s, document, document ? analysis_failed(document, text, false) : NULL);
  }
}

// The document that is due first; NULL: none is to be analysed.
static Document *next_due(const Server *s) {
  Document *first = NULL;
  for (int i = 0; i < s->workspace.count; i++) {
    Document *document = s->workspace.documents[i];
    if (document->dirty && (!first || document->due < first->due)) {
      first = document;
    }
  }
  return first;
}

static void begin(Server *s, Document *document) {
  if (!analysis_begin(&s->analysis, &s->workspace, document)) {
    take(s, document, analysis_failed(document, "no process could be started to check this text", false));
  }
}

// For answers that need it; not for long.
static void wait_for(Server *s, Document *document) {
  const double asked_at = analysis_clock();
  while (document->dirty && !s->over) {
    if (s->analysis.process && strcmp(s->analysis.path, document->path) != 0) {
      analysis_end(&s->analysis);  // that of another text begins again
    }
    if (!s->analysis.process) {
      begin(s, document);
    }
    const double left = asked_at + (document->fresh ? ANSWER_WHOLE : ANSWER_WITHIN) - analysis_clock();
    if (left <= 0) {
      return;
    }
    if (s->analysis.process) {
      struct pollfd from = {s->analysis.pipe, POLLIN, 0};
      poll(&from, 1, (int)(left * 1e3) + 1);
      analysis_look(s);
    }
  }
}

// --- notifications ---

static const char *document_uri(const json_t *parameters) {
  return json_string_value(json_object_get(json_object_get(parameters, "textDocument"), "uri"));
}

static void did_open(Server *s, const json_t *parameters) {
  const json_t *given = json_object_get(parameters, "textDocument"), *text = json_object_get(given, "text");
  const char *uri = document_uri(parameters);
  if (!uri || !json_is_string(text)) {
    notify(s, "textDocument/didOpen without uri or text is ignored");
    return;
  }
  const long long version = json_integer_value(json_object_get(given, "version"));
  if (!workspace_open(&s->workspace, uri, json_string_value(text), json_string_length(text), version)) {
    notify(s, "there is no memory for one more text");
    return;
  }
  mark_all(s);  // they may import it
}

static void did_change(Server *s, const json_t *parameters) {
  const char *uri = document_uri(parameters);
  Document *document = uri ? workspace_find(&s->workspace, uri) : NULL;
  const json_t *changes = json_object_get(parameters, "contentChanges"), *change;
  if (!document) {
    notify(s, "textDocument/didChange of a text that is not open is ignored");
    return;
  }
  size_t i;
  document->lost |= !json_is_array(changes);
  json_array_foreach((json_t *)changes, i, change) {
    if (!document_change(document, change, s->workspace.encoding)) {
      document->lost = true;
      notify(s, "a change of a text has no text or no range: it is ignored");
    }
  }
  const json_t *version = json_object_get(json_object_get(parameters, "textDocument"), "version");
  document->version = json_is_integer(version) ? json_integer_value(version) : document->version + 1;
  mark_readers(s, document, analysis_clock() + PAUSE);
}

static void did_save(Server *s, const json_t *parameters) {
  const char *uri = document_uri(parameters);
  Document *document = uri ? workspace_find(&s->workspace, uri) : NULL;
  if (document) {
    mark_readers(s, document, analysis_clock());
  }
}

static void did_close(Server *s, const json_t *parameters) {
  const char *uri = document_uri(parameters);
  Document *document = uri ? workspace_find(&s->workspace, uri) : NULL;
  if (document) {
    mark(s, document, 0);
    workspace_close(&s->workspace, document);
    mark_all(s);
    s->over |= !publish(&s->workspace, s->published, NULL, s->out);
  }
}

static void did_configure(Server *s, const json_t *parameters) {
  const char *why;
  if (!workspace_configure(&s->workspace, json_object_get(parameters, "settings"), &why)) {
    notify(s, why);
    return;
  }
  mark_all(s);
}

static void did_change_files(Server *s, const json_t *parameters) {
  (void)parameters;
  mark_all(s);
}

// --- requests ---

static bool contains(const json_t *list, const char *word) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *text = json_string_value(json_array_get(list, i));
    if (text && strcmp(text, word) == 0) {
      return true;
    }
  }
  return false;
}

static void initialize(Server *s, const json_t *id, const json_t *parameters) {
  const json_t *client = json_object_get(parameters, "capabilities");
  const json_t *general = json_object_get(client, "general");
  const json_t *hover = json_object_get(json_object_get(client, "textDocument"), "hover");
  const json_t *options = json_object_get(parameters, "initializationOptions");
  const char *why = NULL;
  const bool good = workspace_configure(&s->workspace, options, &why);
  const bool utf8 = contains(json_object_get(general, "positionEncodings"), "utf-8");
  s->workspace.encoding = utf8 ? ENCODING_UTF8 : ENCODING_UTF16;
  s->workspace.markdown = contains(json_object_get(hover, "contentFormat"), "markdown");
  s->initialized = true;
  send_result(s, id,
              json_pack("{s:{s:s, s:{s:b, s:i, s:{s:b}}, s:b, s:b, s:b, s:b, s:{s:[s]}}, s:{s:s, s:s}}", "capabilities",
                        "positionEncoding", utf8 ? "utf-8" : "utf-16", "textDocumentSync", "openClose", 1, "change", 2,
                        "save", "includeText", 0, "hoverProvider", 1, "definitionProvider", 1, "documentSymbolProvider",
                        1, "documentFormattingProvider", 1, "completionProvider", "triggerCharacters", ".",
                        "serverInfo", "name", "mdlc lsp", "version", s->version));
  if (!good) {
    notify(s, why);
  }
}

// The open text that a request is about, and the byte; or an error.
static Document *asked(Server *s, const json_t *id, const json_t *parameters, bool placed, size_t *offset) {
  const char *uri = document_uri(parameters);
  Document *document = uri ? workspace_find(&s->workspace, uri) : NULL;
  Position position = {0, 0};
  if (!document) {
    send_error(s, id, RPC_PARAMETERS, uri ? "that text is not open" : "textDocument.uri is missing");
    return NULL;
  }
  if (placed && !position_read(json_object_get(parameters, "position"), &position)) {
    send_error(s, id, RPC_PARAMETERS, "position.line or position.character is missing");
    return NULL;
  }
  *offset = text_offset(document->text.text, document->text.length, position, s->workspace.encoding);
  return document;
}

static void hover(Server *s, const json_t *id, const json_t *parameters) {
  size_t offset;
  Document *document = asked(s, id, parameters, true, &offset);
  if (document) {
    wait_for(s, document);
    send_result(s, id, answer_hover(&s->workspace, document, offset));
  }
}

static void definition(Server *s, const json_t *id, const json_t *parameters) {
  size_t offset;
  const Document *document = asked(s, id, parameters, true, &offset);
  if (document) {
    send_result(s, id, answer_definition(&s->workspace, document, offset));
  }
}

static void completion(Server *s, const json_t *id, const json_t *parameters) {
  size_t offset;
  const Document *document = asked(s, id, parameters, true, &offset);
  if (document) {
    send_result(s, id, answer_completion(&s->workspace, document, offset));
  }
}

static void symbols(Server *s, const json_t *id, const json_t *parameters) {
  size_t offset;
  const Document *document = asked(s, id, parameters, false, &offset);
  if (document) {
    send_result(s, id, answer_symbols(&s->workspace, document));
  }
}

static void formatting(Server *s, const json_t *id, const json_t *parameters) {
  size_t offset;
  const Document *document = asked(s, id, parameters, false, &offset);
  if (document && document->lost) {  // the edit would undo what is not known here
    send_error(s, id, RPC_FAILED, "a change of this text could not be read: close it and open it again to format it");
  } else if (document) {
    send_result(s, id, answer_formatting(&s->workspace, document));
  }
}

static void shut_down(Server *s, const json_t *id, const json_t *parameters) {
  (void)parameters;
  s->shut_down = true;
  analysis_end(&s->analysis);
  send_result(s, id, NULL);
}

// --- messages ---

static const struct {
  const char *method;
  void (*run)(Server *s, const json_t *id, const json_t *parameters);
} requests[] = {
    {"textDocument/hover", hover},           {"textDocument/definition", definition},
    {"textDocument/completion", completion}, {"textDocument/documentSymbol", symbols},
    {"textDocument/formatting", formatting}, {"shutdown", shut_down},
};

static const struct {
  const char *method;
  void (*run)(Server *s, const json_t *parameters);
} notifications[] = {
    {"textDocument/didOpen", did_open},
    {"textDocument/didChange", did_change},
    {"textDocument/didSave", did_save},
    {"textDocument/didClose", did_close},
    {"workspace/didChangeConfiguration", did_configure},
    {"workspace/didChangeWatchedFiles", did_change_files},
};

static void run_request(Server *s, const json_t *id, const char *method, const json_t *parameters) {
  if (strcmp(method, "initialize") == 0) {
    if (s->initialized) {
      send_error(s, id, RPC_INVALID, "initialize has come before");
    } else {
      initialize(s, id, parameters);
    }
    return;
  }
  if (!s->initialized || s->shut_down) {
    send_error(s, id, s->shut_down ? RPC_INVALID : RPC_NOT_INITIALIZED,
               s->shut_down ? "shutdown has come: only exit may follow" : "initialize has not come yet");
    return;
  }
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
    if (strcmp(requests[i].method, method) == 0) {
      requests[i].run(s, id, parameters);
      return;
    }
  }
  char why[256];
  snprintf(why, sizeof why, "there is no method '%.200s'", method);
  send_error(s, id, RPC_NO_METHOD, why);
}

static void run_notification(Server *s, const char *method, const json_t *parameters) {
  if (strcmp(method, "exit") == 0) {
    s->over = true;
    s->status = s->shut_down ? 0 : 1;
    return;
  }
  for (size_t i = 0; i < sizeof notifications / sizeof *notifications && s->initialized && !s->shut_down; i++) {
    if (strcmp(notifications[i].method, method) == 0) {
      notifications[i].run(s, parameters);
    }
  }
}

// Any text may have had a change in it.
static void lose_all(Server *s) {
  for (int i = 0; i < s->workspace.count; i++) {
    s->workspace.documents[i]->lost = true;
  }
}

// Editors send halves of UTF-16 pairs as they stand in a text.
static json_t *message_read(const char *body, size_t length, json_error_t *error) {
  json_t *message = json_loadb(body, length, JSON_ALLOW_NUL, error);
  char *copy = message ? NULL : malloc(length + 1);
  if (copy) {
    json_error_t again;
    memcpy(copy, body, length);
    copy[length] = '\0';
    message = text_whole_pairs(copy, length) ? json_loadb(copy, length, JSON_ALLOW_NUL, &again) : NULL;
    free(copy);
  }
  return message;
}

static void run_message(Server *s, const char *body, size_t length) {
  json_error_t error;
  json_t *message = message_read(body, length, &error);
  if (!message) {
    lose_all(s);
    char why[JSON_ERROR_TEXT_LENGTH + 64];
    snprintf(why, sizeof why, "the message is no JSON: %s", error.text);
    send_error(s, NULL, RPC_PARSE, why);
    return;
  }
  const json_t *id = json_object_get(message, "id"), *method = json_object_get(message, "method");
  const json_t *parameters = json_object_get(message, "params");
  const bool named = json_is_string(id) || json_is_integer(id);
  const char *name = json_string_value(method);
  if (json_is_object(message) && name && id && named) {
    run_request(s, id, name, parameters);
  } else if (json_is_object(message) && name && !id) {
    run_notification(s, name, parameters);
  } else if (!json_is_object(message) || name || !id ||
             (!json_object_get(message, "result") && !json_object_get(message, "error"))) {
    send_error(s, named ? id : NULL, RPC_INVALID,
               "the message is no request: an object with method, and id if it asks");
  }
  json_decref(message);
}

static void run_messages(Server *s) {
  const char *body, *why;
  size_t length;
  for (FrameResult result; !s->over && (result = frame_next(&s->reader, &body, &length, &why)) != FRAME_WAIT;) {
    if (result == FRAME_BAD) {
      lose_all(s);
      send_error(s, NULL, strstr(why, "more than") ? RPC_INVALID : RPC_PARSE, why);
    } else {
      run_message(s, body, length);
    }
  }
  if (s->reader.bytes.failed) {
    frame_exhausted();
  }
}

// Milliseconds until something is to be done without being asked; -1: nothing is.
static int patience(const Server *s) {
  const Document *due = s->shut_down ? NULL : next_due(s);
  const double now = analysis_clock();
  const double left = s->analysis.process ? s->analysis.begun + s->workspace.analysis_limit - now
                      : due               ? due->due - now
                                          : -1;
  return !s->analysis.process && !due ? -1 : left > 0 ? (int)(left * 1e3) + 1 : 0;
}

static void turn(Server *s) {
  struct pollfd from[2] = {{s->in, POLLIN, 0}, {s->analysis.process ? s->analysis.pipe : -1, POLLIN, 0}};
  if (poll(from, 2, patience(s)) < 0 && errno != EINTR) {
    s->over = true;
    s->status = 1;
    return;
  }
  if (from[0].revents) {
    char bytes[1 << 16];
    const ssize_t got = read(s->in, bytes, sizeof bytes);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
      s->over = true;  // the client is gone, without `exit`
      s->status = 1;
      return;
    }
    frame_add(&s->reader, bytes, got > 0 ? (size_t)got : 0);
    run_messages(s);
  }
  analysis_look(s);
  Document *due = s->over || s->shut_down || s->analysis.process ? NULL : next_due(s);
  if (due && due->due <= analysis_clock()) {
    begin(s, due);
  }
}

int lsp_serve(int in, int out, const char *version) {
  json_set_alloc_funcs(json_memory, free);
  Server s = {.in = in, .out = out, .version = version, .published = json_object()};
  workspace_create(&s.workspace);
  signal(SIGPIPE, SIG_IGN);
  while (!s.over) {
    turn(&s);
  }
  analysis_end(&s.analysis);
  frame_free(&s.reader);
  workspace_free(&s.workspace);
  json_decref(s.published);
  return s.status;
}
