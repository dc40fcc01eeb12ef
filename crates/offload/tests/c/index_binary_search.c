// A binary search by indices.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u32 keys[16];
};

struct scratchpad {
    u32 key;
    u64 found;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 low = 0, high = 16;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 middle = (low + high) / 2;
        if (middle > 15)
            return 1;
        if (node->keys[middle] < pad->key)
            low = middle + 1;
        else
            high = middle;
    }
    pad->found = low < 16 && node->keys[low & 15] == pad->key;
    return (int)pad->found;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
