// Adds words between two pointers in a node.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u32 first, last;
    u64 words[12];
};

struct scratchpad {
    u64 sum;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 first = node->first, last = node->last;
    if (first > 12 || last > 12)
        return 1;
    const u64 *word = node->words + first, *stop = node->words + last;
#pragma unroll
    for (int i = 0; i < 12; i++) {
        if (word >= stop || word >= node->words + 12)
            break;
        pad->sum += *word++;
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
