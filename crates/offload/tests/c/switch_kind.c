// The next node by the kind of a node.
#include "nearfield_offload.h"

struct node {
    u32 kind;
    u64 a, b, c, d;
};

struct scratchpad {
    u64 key;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->a == pad->key;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    switch (node->kind) {
    case 0:
        return node->a;
    case 1:
        return node->b;
    case 2:
        return node->c;
    case 3:
        return node->d;
    case 4:
        return node->a + 8;
    default:
        return 0;
    }
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
