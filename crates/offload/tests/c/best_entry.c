// The best entry of a node, by a pointer that may be null.
#include "nearfield_offload.h"

struct entry {
    u64 key, value;
};

struct node {
    u64 next;
    u32 count;
    struct entry entries[10];
};

struct scratchpad {
    u64 key, found, value;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    const struct entry *best = 0;
#pragma unroll
    for (u32 i = 0; i < 10; i++)
        if (i < node->count && node->entries[i].key <= pad->key)
            best = &node->entries[i];
    if (!best)
        return 0;
    pad->found = best->key;
    pad->value = best->value;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
