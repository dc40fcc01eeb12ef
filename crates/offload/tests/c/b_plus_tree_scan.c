// Adds the values of a range in the leaves of a B+ tree.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u32 count;
    u64 keys[9], values[9];
};

struct scratchpad {
    u64 low, high, sum, count;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
#pragma unroll
    for (int i = 0; i < 9; i++) {
        if (i >= node->count)
            return 0;
        u64 key = node->keys[i];
        if (key > pad->high)
            return 1;
        if (key < pad->low)
            continue;
        pad->sum += node->values[i];
        pad->count++;
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
