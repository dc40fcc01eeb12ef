// A step of a walk in a graph, by a generator of random numbers.
#include "nearfield_offload.h"

struct node {
    u32 degree;
    u64 edges[16];
};

struct scratchpad {
    u64 seed;
    u32 left;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (pad->left == 0)
        return 1;
    pad->left--;
    pad->seed ^= pad->seed << 13;
    pad->seed ^= pad->seed >> 7;
    pad->seed ^= pad->seed << 17;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 degree = node->degree;
    if (degree == 0 || degree > 16)
        return 0;
    return node->edges[(u32)pad->seed % degree];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
