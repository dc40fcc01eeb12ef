// Chooses a child by a pointer that walks over the keys.
#include "nearfield_offload.h"

struct node {
    u32 count;
    u32 level;
    u64 keys[8], children[9];
};

struct scratchpad {
    u64 key, at;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    pad->at = address;
    return node->level == 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 count = node->count;
    if (count > 8)
        return 0;
    const u64 *key = node->keys, *last = node->keys + count;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (key >= last || *key > pad->key)
            break;
        key++;
    }
    return node->children[key - node->keys];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
