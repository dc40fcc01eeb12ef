// A child whose index is the number of bits below one.
#include "nearfield_offload.h"

struct node {
    u64 bitmap;
    u64 child[8];
};

struct scratchpad {
    u64 key;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->bitmap == 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u64 bit = pad->key & 7;
    if (!(node->bitmap >> bit & 1))
        return 0;
    u64 below = node->bitmap & ((1ull << bit) - 1) & 255;
    u32 count = 0;
#pragma unroll
    for (int i = 0; i < 7; i++)
        count += below >> i & 1;
    return node->child[count];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
