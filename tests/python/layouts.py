"""layouts.py: prints C that compiles where the structures of the package are those of mdl.h."""

import ctypes

from mdl import _library

print('#include <stddef.h>\n#include "mdl.h"')
for structure in _library.STRUCTURES:
    name = structure.__name__
    print(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(structure)}, "{name}");')
    for field, kind in structure._fields_:
        at = getattr(structure, field)
        print(f'_Static_assert(offsetof({name}, {field}) == {at.offset}, "{name}.{field}");')
        print(f'_Static_assert(sizeof((({name} *)0)->{field}) == {ctypes.sizeof(kind)}, "{name}.{field}");')
print(f'_Static_assert(MDL_MAX_AXES == {_library.MAX_AXES}, "MDL_MAX_AXES");')
print('_Static_assert(MDL_VALUE_PARAMETER == 0 && MDL_VALUE_OPTIMIZER == 1 && MDL_VALUE_STATE == 2 && '
      'MDL_VALUE_OUTPUT == 3, "MdlValueKind");')
