// The last entry of a list.
#include "nearfield_offload.h"

struct node {
    u64 next, key, value;
};

struct scratchpad {
    u64 key, found, value, at;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->next)
        return 0;
    pad->found = 1;
    pad->value = node->value;
    pad->at = address;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
