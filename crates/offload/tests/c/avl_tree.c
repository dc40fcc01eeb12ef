// find in an AVL tree. A child is chosen by the sign of a comparison.
#include "nearfield_offload.h"

struct node {
    u64 child[2];
    int balance;
    u32 key;
    u64 value;
};

struct scratchpad {
    u32 key;
    u64 found, value, at;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key != pad->key)
        return 0;
    pad->found = 1;
    pad->value = node->value;
    pad->at = address;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->child[node->key < pad->key];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
