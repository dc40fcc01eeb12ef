// Descends in a tree of 16 children by four bits of the key.
#include "nearfield_offload.h"

struct node {
    u64 child[16];
    u64 value;
    u8 shift;
};

struct scratchpad {
    u64 key, found, value;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->shift > 60) {
        pad->found = 1;
        pad->value = node->value;
        return 1;
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->child[pad->key >> node->shift & 15];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
