// The lower bound in a B+ tree.
#include "nearfield_offload.h"

enum { ENTRIES = 9 };

struct entry {
    u64 key, value;
};

struct node {
    u64 is_leaf, count;
    struct entry entries[ENTRIES];
    u64 children[ENTRIES + 1];
    u64 next, previous;
};

struct scratchpad {
    u64 key, found, entry_key, entry_value, entry_node, unused;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u64 key = pad->key;
    if (!node->is_leaf)
        return 0;
#pragma unroll
    for (u64 i = 0; i < ENTRIES; i++) {
        if (i >= node->count)
            return 0;
        if (node->entries[i].key >= key) {
            pad->found = 1;
            pad->entry_key = node->entries[i].key;
            pad->entry_value = node->entries[i].value;
            pad->entry_node = address;
            return 1;
        }
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u64 key = pad->key, child = 0;
    if (node->is_leaf)
        return node->next;
    // Keys are in order, so those at or below the searched one come first.
#pragma unroll
    for (u64 i = 0; i < ENTRIES; i++) {
        if (i >= node->count || node->entries[i].key > key)
            break;
        child = i + 1;
    }
    return node->children[child];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
