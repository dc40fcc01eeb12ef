// Counts bytes in an array of the stack, by an index.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u8 bytes[8];
    u64 child[4];
};

struct scratchpad {
    u64 most;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 counts[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++)
        counts[node->bytes[i] & 3]++;
    u32 most = 0;
#pragma unroll
    for (u32 i = 1; i < 4; i++)
        if (counts[i] > counts[most & 3])
            most = i;
    pad->most = most;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->child[pad->most & 3];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
