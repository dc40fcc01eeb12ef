// A child by the sign of a difference.
#include "nearfield_offload.h"

struct node {
    long long key;
    u64 child[3];
};

struct scratchpad {
    long long key;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    long long difference = pad->key - node->key;
    int sign = (difference > 0) - (difference < 0);
    return node->child[sign + 1];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
