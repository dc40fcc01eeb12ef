// An index of 64 bits that two tests bound.
#include "nearfield_offload.h"

struct node {
    long long index;
    u64 child[6];
};

struct scratchpad {
    u64 key;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->child[5] == pad->key;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    long long index = node->index;
    if (index < 0)
        return 0;
    if (index > 5)
        return 0;
    return node->child[index];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
