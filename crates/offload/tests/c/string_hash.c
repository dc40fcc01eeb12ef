// Hashes the bytes of a node, then chooses a link.
#include "nearfield_offload.h"

struct node {
    u8 bytes[16];
    u64 next[7];
};

struct scratchpad {
    u32 hash;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 h = 2166136261u;
#pragma unroll
    for (int i = 0; i < 16; i++)
        h = (h ^ node->bytes[i]) * 16777619u;
    pad->hash = h;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next[pad->hash % 7];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
