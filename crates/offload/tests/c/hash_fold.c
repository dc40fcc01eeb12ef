// A bucket by a hash that is folded to eight bits, then masked.
#include "nearfield_offload.h"

struct node {
    u64 buckets[32];
};

struct scratchpad {
    u32 key;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 h = pad->key;
    h ^= h >> 16;
    h ^= h >> 8;
    return node->buckets[(u8)h & 31];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
