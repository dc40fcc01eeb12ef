// Traversals in C: define the types of node and scratchpad, `end` and `next`, and then
// NEARFIELD_TRAVERSAL. Compile with `clang -target bpf -mcpu=v3 -O2 -c`.
//
// Each is called once in an iteration. `end` returns true if the traversal is done, and leaves its
// answer in the scratchpad. `next` returns the address of the next node; 0 ends the traversal, too.
// Loops have to be unrolled by the compiler (#pragma unroll), and calls inlined. If clang warns
// that a loop is not unrolled, give it one exit: `if (i < count && ...)` instead of
// `if (i >= count) break;`. An index needs a bound: a mask, a comparison, or a remainder.

#ifndef NEARFIELD_OFFLOAD_H
#define NEARFIELD_OFFLOAD_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define NEARFIELD_INLINE static inline __attribute__((always_inline))

// The length of the scratchpad and the place of the list of free regions (0xffff: none), then the
// iteration itself.
#define NEARFIELD_TRAVERSAL(NODE, SCRATCHPAD)                                                      \
    __attribute__((section("nearfield.declaration"), used)) const u16 nearfield_declaration[2] = { \
        sizeof(SCRATCHPAD), 0xffff};                                                               \
    __attribute__((section("nearfield.iteration"), used)) u64 nearfield_iteration(                 \
        const NODE *node, SCRATCHPAD *scratchpad, u64 address) {                                   \
        if (end(node, scratchpad, address))                                                        \
            return 0;                                                                              \
        return next(node, scratchpad, address);                                                    \
    }

#endif
