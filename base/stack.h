// stack.h: a stack for what recurses once for each node of a graph, as long chains of sums have it do.
#ifndef MDL_BASE_STACK_H
#define MDL_BASE_STACK_H

// Does the work on a stack of 1 GiB, in a thread of its own, and waits for it. Memory is taken as it is used. Where the
// address space is limited (`ulimit -v`) the stack is an eighth of that at most; where there is no such thread, the
// work is done on the stack of the caller.
void stack_deep(void (*work)(void *context), void *context);

// For a program, around all that it does: its threads have stacks of 2 MiB at least, and so has the work, where a limit
// (`ulimit -s`) says less: it is done in a thread then.
void stack_ensure(void (*work)(void *context), void *context);

#endif
