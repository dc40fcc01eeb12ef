// find in a B-tree: keys and values in inner nodes, too.
#include "nearfield_offload.h"

struct node {
    u32 count;
    u32 is_leaf;
    u64 keys[7], values[7], children[8];
};

struct scratchpad {
    u64 key, found, value, at;
    u32 index;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 count = node->count, i = 0;
#pragma unroll
    for (u32 step = 0; step < 7; step++)
        if (step < count && node->keys[step] < pad->key)
            i = step + 1;
    pad->index = i;
    if (i < 7 && i < count && node->keys[i] == pad->key) {
        pad->found = 1;
        pad->value = node->values[i];
        return 1;
    }
    return node->is_leaf != 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 i = pad->index;
    if (i > 7)
        return 0;
    return node->children[i];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
