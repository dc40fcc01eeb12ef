// The way to a place in a heap, by the bits of its number.
#include "nearfield_offload.h"

struct node {
    u64 left, right, value;
};

struct scratchpad {
    u64 place, value;
    u32 bit;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (pad->bit == 0) {
        pad->value = node->value;
        return 1;
    }
    pad->bit--;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return pad->place >> (pad->bit & 63) & 1 ? node->right : node->left;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
