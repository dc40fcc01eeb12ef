// The upper bound in a binary search tree, of signed keys.
#include "nearfield_offload.h"

struct node {
    u64 left, right;
    long long key;
    u64 value;
};

struct scratchpad {
    long long key;
    u64 found, value, at;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key > pad->key) {
        pad->found = 1;
        pad->value = node->value;
        pad->at = address;
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key <= pad->key)
        return node->right;
    return node->left;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
