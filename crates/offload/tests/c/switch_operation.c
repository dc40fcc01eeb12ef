// Applies an operation that the caller chooses to each value.
#include "nearfield_offload.h"

struct node {
    u64 next;
    long long value;
};

struct scratchpad {
    long long result;
    u32 operation;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    switch (pad->operation) {
    case 0:
        pad->result += node->value;
        break;
    case 1:
        if (node->value < pad->result)
            pad->result = node->value;
        break;
    case 2:
        if (node->value > pad->result)
            pad->result = node->value;
        break;
    case 3:
        pad->result ^= node->value;
        break;
    case 4:
        pad->result++;
        break;
    default:
        return 1;
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
