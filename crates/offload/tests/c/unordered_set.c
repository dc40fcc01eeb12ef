// contains in a chain of a hash set of short keys.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u16 length;
    u8 bytes[6];
};

struct scratchpad {
    u64 found;
    u16 length;
    u8 bytes[6];
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->length != pad->length)
        return 0;
#pragma unroll
    for (int i = 0; i < 6; i++)
        if (node->bytes[i] != pad->bytes[i])
            return 0;
    pad->found = 1;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
