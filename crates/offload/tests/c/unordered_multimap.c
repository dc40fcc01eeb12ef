// count of a key in a chain whose equal keys are adjacent.
#include "nearfield_offload.h"

struct node {
    u64 next, key, value;
};

struct scratchpad {
    u64 key, count;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key == pad->key)
        pad->count++;
    else if (pad->count)
        return 1;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
