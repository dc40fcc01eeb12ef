// Two buckets of four entries, by two hashes.
#include "nearfield_offload.h"

struct node {
    u32 keys[8];
    u64 values[8];
    u64 next;
};

struct scratchpad {
    u64 found, value;
    u32 key;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 first = pad->key & 1, second = 1 - first;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        if (node->keys[first * 4 + i] == pad->key) {
            pad->value = node->values[first * 4 + i];
            pad->found = 1;
        }
        if (node->keys[second * 4 + i] == pad->key) {
            pad->value = node->values[second * 4 + i];
            pad->found = 2;
        }
    }
    return pad->found != 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
