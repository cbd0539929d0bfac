// json_guard.h: the library that reads and writes JSON, where memory is missing.
//
// It gives back NULL or an object that lacks something then, does not always say why, and on some ways frees what it
// never got. So it is not let go on: the allocation that fails ends the work, and what the work had got is freed.
#ifndef MDL_BASE_JSON_GUARD_H
#define MDL_BASE_JSON_GUARD_H

#include <jansson.h>
#include <stdbool.h>

// Does the work, in which memory is got by the library alone. False: memory was missing, and nothing that the work made
// is there; what was there before is, but may not be freed whole. Not to be nested.
bool json_guarded(void (*work)(void *context), void *context);

// What `make` returns, which is dropped, as text by the library's `flags`. NULL: memory was missing, or `make` returned
// NULL. json_dumps is called here alone: by itself it leaves parts out where it gets no memory for them.
typedef json_t *JsonMake(void *context);
char *json_made(JsonMake *make, void *context, size_t flags);
char *json_dumped(json_t *value, size_t flags);  // of what is there, which stays; inside guarded work too
void json_guard_free(void *text);                // what the two returned

// json_loadb. NULL and *starved: memory was missing; NULL alone: `why` says what is wrong.
json_t *json_read(const char *text, size_t size, size_t flags, json_error_t *why, bool *starved);

#endif
