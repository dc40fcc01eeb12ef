// The lower bound in a binary search tree.
#include "nearfield_offload.h"

struct node {
    u64 left, right, key, value;
};

struct scratchpad {
    u64 key, found, value, at;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key >= pad->key) {
        pad->found = 1;
        pad->value = node->value;
        pad->at = address;
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->key < pad->key ? node->right : node->left;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
