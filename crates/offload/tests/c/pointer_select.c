// A field of either half of a node, by a pointer.
#include "nearfield_offload.h"

struct half {
    u64 low, high;
};

struct node {
    struct half halves[2];
    u64 next;
};

struct scratchpad {
    u64 key, low, high;
    u32 side;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    const struct half *half = pad->side ? &node->halves[1] : &node->halves[0];
    pad->low = half->low;
    pad->high = half->high;
    return half->low == pad->key;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
