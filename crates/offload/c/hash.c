// find in a chain of a hash table.
#include "nearfield_offload.h"

struct node {
    u64 next, key, value, used;
};

struct scratchpad {
    u64 key, found, entry_key, entry_value, entry_node, unused;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->used && node->key == pad->key) {
        pad->found = 1;
        pad->entry_key = node->key;
        pad->entry_value = node->value;
        pad->entry_node = address;
        return 1;
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
