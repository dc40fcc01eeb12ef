// The first interval that contains a point.
#include "nearfield_offload.h"

struct node {
    u64 left, right, low, high, greatest;
    u64 value;
};

struct scratchpad {
    u64 point, found, value;
    u8 goes_left;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->low <= pad->point && pad->point < node->high) {
        pad->found = 1;
        pad->value = node->value;
        return 1;
    }
    pad->goes_left = node->left && node->greatest > pad->point;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return pad->goes_left ? node->left : node->right;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
