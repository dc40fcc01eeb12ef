// A bucket by the remainder of a hash.
#include "nearfield_offload.h"

struct node {
    u64 next[12];
    u64 key, value;
};

struct scratchpad {
    u64 key, hash, found, value, at;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key != pad->key)
        return 0;
    pad->found = 1;
    pad->value = node->value;
    pad->at = address;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next[pad->hash % 12];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
