// Compares strings by two pointers that move.
#include "nearfield_offload.h"

struct node {
    u64 next, value;
    char key[12];
};

struct scratchpad {
    u64 found;
    char key[12];
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    const char *a = node->key, *b = pad->key;
#pragma unroll
    for (int i = 0; i < 12; i++) {
        if (*a != *b)
            return 0;
        if (*a == 0)
            break;
        a++, b++;
    }
    pad->found = a - node->key + 1;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
