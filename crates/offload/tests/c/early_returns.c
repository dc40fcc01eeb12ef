// Leaves by many ways.
#include "nearfield_offload.h"

struct node {
    u64 next, key, value;
    u32 flags;
    u32 version;
};

struct scratchpad {
    u64 key, found, value;
    u32 version;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->flags & 1)
        return 1;
    if (node->version < pad->version)
        return 0;
    if (node->flags & 2)
        return 0;
    if (node->key < pad->key)
        return 0;
    if (node->key > pad->key)
        return 1;
    pad->found = 1;
    pad->value = node->value;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->flags & 4)
        return node->value;
    if (node->version == 0)
        return 0;
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
