// An index by a shift whose distance is small and variable.
#include "nearfield_offload.h"

struct node {
    u8 level;
    u64 child[16];
};

struct scratchpad {
    u64 key;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->level > 15;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 level = node->level & 15;
    return node->child[(pad->key >> (4 * level)) & 15];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
