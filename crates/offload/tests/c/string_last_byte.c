// The link behind the first zero byte of a name.
#include "nearfield_offload.h"

struct node {
    char name[8];
    u64 next[9];
};

struct scratchpad {
    u64 length;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    int i;
#pragma unroll
    for (i = 0; i < 8; i++)
        if (!node->name[i])
            break;
    pad->length = i;
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u64 length = pad->length;
    return length <= 8 ? node->next[length] : 0;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
