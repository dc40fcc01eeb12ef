// Skips versions that a transaction must not see.
#include "nearfield_offload.h"

struct node {
    u64 next, begin, end, key, value;
};

struct scratchpad {
    u64 key, now, found, value;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key != pad->key)
        return 0;
    if (pad->now < node->begin || pad->now >= node->end)
        return 0;
    pad->found = 1;
    pad->value = node->value;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
