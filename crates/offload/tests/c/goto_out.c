// Leaves nested tests by a jump to the end.
#include "nearfield_offload.h"

struct node {
    u64 left, right, key, value;
    u8 deleted;
};

struct scratchpad {
    u64 key, found, value;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->deleted)
        goto miss;
    if (node->key == pad->key) {
        if (!node->value)
            goto miss;
        pad->found = 1;
        pad->value = node->value;
        return 1;
    }
    miss:
    pad->found = 0;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return pad->key < node->key ? node->left : node->right;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
