// The magnitude of a difference as an index.
#include "nearfield_offload.h"

struct node {
    int position;
    u64 child[8];
};

struct scratchpad {
    int position;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    int distance = node->position - pad->position;
    if (distance < 0)
        distance = -distance;
    if (distance < 0 || distance > 7)
        return 0;
    return node->child[distance];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
