// The mean of the values of a list, rounded down.
#include "nearfield_offload.h"

struct node {
    u64 next, value;
};

struct scratchpad {
    u64 sum, count, mean;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    pad->sum += node->value;
    pad->count++;
    if (node->next)
        return 0;
    pad->mean = pad->sum / pad->count;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
