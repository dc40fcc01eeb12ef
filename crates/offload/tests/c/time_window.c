// Adds the samples of a window of time, eight a node.
#include "nearfield_offload.h"

struct node {
    u64 next, start;
    u32 step;
    int values[8];
};

struct scratchpad {
    u64 from, to;
    long long sum;
    u32 count;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        u64 time = node->start + (u64)i * node->step;
        if (time < pad->from)
            continue;
        if (time >= pad->to)
            return 1;
        pad->sum += node->values[i];
        pad->count++;
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
