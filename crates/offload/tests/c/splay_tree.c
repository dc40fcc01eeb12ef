// find in a splay tree, which notes the direction of the last step.
#include "nearfield_offload.h"

struct node {
    u64 left, right, key, value;
};

struct scratchpad {
    u64 key, found, value, at;
    int direction;
    u32 depth;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key == pad->key) {
        pad->found = 1;
        pad->value = node->value;
        pad->at = address;
        return 1;
    }
    pad->direction = node->key < pad->key ? 1 : -1;
    pad->depth++;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    switch (pad->direction) {
    case 1:
        return node->right;
    case -1:
        return node->left;
    default:
        return 0;
    }
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
