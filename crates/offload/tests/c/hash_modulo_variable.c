// A bucket by the remainder of a divisor that the node has.
#include "nearfield_offload.h"

struct node {
    u32 size;
    u64 buckets[16];
};

struct scratchpad {
    u64 hash, found;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->size == 0 || node->size > 16;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u64 size = node->size;
    if (size == 0 || size > 16)
        return 0;
    return node->buckets[pad->hash % size];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
