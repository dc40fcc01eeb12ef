// The depth of a key in a scapegoat tree, with a limit.
#include "nearfield_offload.h"

struct node {
    u64 left, right, key, value;
};

struct scratchpad {
    u64 key, found;
    u32 depth, limit;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (++pad->depth > pad->limit)
        return 1;
    pad->found = node->key == pad->key;
    return (int)pad->found;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return pad->key < node->key ? node->left : node->right;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
