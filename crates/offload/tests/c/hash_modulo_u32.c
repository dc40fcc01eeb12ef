// A bucket by the remainder of a hash of 32 bits.
#include "nearfield_offload.h"

struct node {
    u32 hash;
    u64 buckets[13];
};

struct scratchpad {
    u64 key, seen;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    pad->seen = node->hash % 13;
    return node->buckets[pad->seen % 13] == pad->key;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->buckets[node->hash % 13];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
