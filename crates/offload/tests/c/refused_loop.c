// A loop whose count is not known before it runs.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u32 count;
    u32 words[32];
};

struct scratchpad {
    u64 sum;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    for (u32 i = 0; i < (node->count & 31); i++)
        pad->sum = pad->sum * 31 + node->words[i];
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
