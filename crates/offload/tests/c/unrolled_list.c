// find in a list whose nodes have several keys.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u32 count;
    u32 keys[12];
    u64 values[12];
};

struct scratchpad {
    u64 key, found, value, at;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 count = node->count;
#pragma unroll
    for (u32 i = 0; i < 12; i++) {
        if (i < count && node->keys[i] == pad->key) {
            pad->found = 1;
            pad->value = node->values[i];
            return 1;
        }
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
