// The lower bound in a std::map.
#include "nearfield_offload.h"

struct node {
    u64 colour, parent, left, right, key, value;
};

struct scratchpad {
    u64 key, found, entry_key, entry_value, entry_node, unused;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key >= pad->key) {
        pad->found = 1;
        pad->entry_key = node->key;
        pad->entry_value = node->value;
        pad->entry_node = address;
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->key < pad->key ? node->right : node->left;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
