// A bucket by the upper bits of a product.
#include "nearfield_offload.h"

struct node {
    u64 buckets[16];
    u64 key;
};

struct scratchpad {
    u64 key, found;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    pad->found = node->key == pad->key;
    return (int)pad->found;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->buckets[(pad->key * 0x9e3779b97f4a7c15ull) >> 60];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
