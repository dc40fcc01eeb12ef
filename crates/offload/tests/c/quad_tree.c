// A quadrant by two comparisons of signed coordinates.
#include "nearfield_offload.h"

struct node {
    int x, y;
    u64 quadrant[4];
    u64 value;
};

struct scratchpad {
    int x, y;
    u64 value;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->x != pad->x || node->y != pad->y)
        return 0;
    pad->value = node->value;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->quadrant[(pad->x >= node->x) + 2 * (pad->y >= node->y)];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
