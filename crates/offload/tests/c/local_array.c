// Sorts four numbers in an array of the stack.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u32 numbers[4];
};

struct scratchpad {
    u64 median;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 sorted[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        sorted[i] = node->numbers[i];
#pragma unroll
    for (int i = 0; i < 3; i++) {
#pragma unroll
        for (int j = 0; j < 3 - i; j++) {
            if (sorted[j] > sorted[j + 1]) {
                u32 kept = sorted[j];
                sorted[j] = sorted[j + 1];
                sorted[j + 1] = kept;
            }
        }
    }
    pad->median += sorted[1];
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
