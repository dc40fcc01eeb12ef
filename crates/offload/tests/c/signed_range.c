// An index from -7 to 7.
#include "nearfield_offload.h"

struct node {
    signed char step;
    u64 child[15];
};

struct scratchpad {
    u64 key;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    int step = node->step;
    if (step < -7 || step > 7)
        return 0;
    return node->child[step + 7];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
