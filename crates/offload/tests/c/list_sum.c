// The sum of the values of a list, up to a number of nodes.
#include "nearfield_offload.h"

struct node {
    u64 next, key, value;
};

struct scratchpad {
    u64 sum;
    u32 left;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    pad->sum += node->value;
    if (pad->left == 0)
        return 1;
    pad->left--;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
