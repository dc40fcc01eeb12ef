// A binary search by halving a pointer's range.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u64 keys[16];
    u64 values[8];
};

struct scratchpad {
    u64 key, found, index;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    const u64 *base = node->keys;
#pragma unroll
    for (int half = 8; half > 0; half /= 2)
        if (base[half - 1] < pad->key)
            base += half;
    pad->index = base - node->keys;
    pad->found = base < node->keys + 16 && *base == pad->key;
    return (int)pad->found;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
