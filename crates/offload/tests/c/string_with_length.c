// Compares strings that have lengths.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u8 length;
    u8 bytes[15];
};

struct scratchpad {
    u64 found;
    u8 length;
    u8 bytes[15];
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 length = node->length;
    if (length != pad->length || length > 15)
        return 0;
#pragma unroll
    for (u32 i = 0; i < 15; i++)
        if (i < length && node->bytes[i] != pad->bytes[i])
            return 0;
    pad->found = 1;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
