// The least key that is not below the searched one, with the colour in the parent.
#include "nearfield_offload.h"

struct node {
    u64 parent_colour, left, right, key, value;
};

struct scratchpad {
    u64 key, found, value, at;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key < pad->key)
        return 0;
    pad->found = 1 + (node->parent_colour & 1);
    pad->value = node->value;
    pad->at = node->parent_colour & ~1ull;
    return node->key == pad->key;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->key < pad->key ? node->right : node->left;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
