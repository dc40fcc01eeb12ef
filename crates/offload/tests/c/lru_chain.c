// Marks the nodes of a chain that are older than a limit, and counts them.
#include "nearfield_offload.h"

struct node {
    u64 newer, older, time;
    u32 pinned;
};

struct scratchpad {
    u64 limit;
    u32 count, pinned;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->time >= pad->limit)
        return 0;
    if (node->pinned)
        pad->pinned++;
    else
        pad->count++;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->older;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
