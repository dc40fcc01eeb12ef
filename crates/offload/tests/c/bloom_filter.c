// Tests three bits of a filter before a chain is followed.
#include "nearfield_offload.h"

struct node {
    u64 filter[4];
    u64 next, key;
};

struct scratchpad {
    u64 key, found;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u64 h = pad->key;
#pragma unroll
    for (int i = 0; i < 3; i++) {
        u32 bit = (u32)(h >> (8 * i)) & 255;
        if (!(node->filter[bit / 64] >> (bit % 64) & 1))
            return 1;
    }
    pad->found = node->key == pad->key;
    return (int)pad->found;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
