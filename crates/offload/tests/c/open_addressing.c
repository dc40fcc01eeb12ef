// Probes eight entries from a place that the hash gives.
#include "nearfield_offload.h"

struct entry {
    u64 key, value;
};

struct node {
    struct entry entries[8];
    u64 next;
};

struct scratchpad {
    u64 key, found, value;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 at = (u32)(pad->key % 8);
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        const struct entry *entry = &node->entries[(at + i) & 7];
        if (entry->key == 0)
            return 0;
        if (entry->key == pad->key) {
            pad->found = 1;
            pad->value = entry->value;
            return 1;
        }
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
