// A link by a distance of 16 bits with a sign.
#include "nearfield_offload.h"

struct node {
    short distance;
    u16 unused;
    u64 link[16];
};

struct scratchpad {
    u32 at;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return pad->at > 15;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    int at = (int)pad->at + node->distance;
    if (at < 0 || at > 15)
        return 0;
    pad->at = at;
    return node->link[at];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
