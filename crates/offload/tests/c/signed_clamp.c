// An index that is clamped at both ends.
#include "nearfield_offload.h"

struct node {
    int wish;
    u64 child[10];
};

struct scratchpad {
    u64 key;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->child[0] == pad->key;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    int i = node->wish;
    if (i < 0)
        i = 0;
    if (i > 9)
        i = 9;
    return node->child[i];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
