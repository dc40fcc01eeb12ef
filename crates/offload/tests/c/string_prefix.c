// Counts keys with a prefix, by words in big-endian order.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u64 words[2];
};

struct scratchpad {
    u64 prefix[2], mask[2];
    u32 count;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u64 different = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        u64 word = __builtin_bswap64(node->words[i]);
        different |= (word ^ pad->prefix[i]) & pad->mask[i];
    }
    pad->count += different == 0;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
