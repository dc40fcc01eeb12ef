// Compares keys of 16 bytes as strcmp does.
#include "nearfield_offload.h"

struct node {
    u64 left, right, value;
    char key[16];
};

struct scratchpad {
    u64 found, value;
    int order;
    char key[16];
};

NEARFIELD_INLINE int compare(const char *a, const char *b) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
        if (a[i] != b[i])
            return (u8)a[i] < (u8)b[i] ? -1 : 1;
        if (!a[i])
            return 0;
    }
    return 0;
}

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    int order = compare(node->key, pad->key);
    pad->order = order;
    if (order)
        return 0;
    pad->found = 1;
    pad->value = node->value;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return pad->order > 0 ? node->left : node->right;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
