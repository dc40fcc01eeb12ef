// A bit field of a mask that is built by shifting.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u8 which;
    u8 table[17];
};

struct scratchpad {
    u64 count;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 which = node->which;
    if (which > 4)
        return 1;
    pad->count += node->table[1u << which];
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
