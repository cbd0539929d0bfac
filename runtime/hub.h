// hub.h: names of the Hugging Face hub where a path is wanted.
#ifndef MDL_RUNTIME_HUB_H
#define MDL_RUNTIME_HUB_H

enum { HUB_HINT_MAX = 640 };

// What to say behind "there is no ...", of a path that is not there and may be such a name, or its address: that
// nothing is downloaded, and how its directory is made. Behind that stands what is done with it then: `before`, its
// name, `behind`. file: the one that is wanted of it, or NULL. "": it is no such name.
const char *hub_hint(const char *path, const char *before, const char *behind, const char *file,
                     char hint[HUB_HINT_MAX]);

#endif
