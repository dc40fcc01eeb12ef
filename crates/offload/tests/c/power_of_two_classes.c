// A class by the highest bit of a size.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u64 classes[8];
};

struct scratchpad {
    u8 size;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 size = pad->size, class = 0;
#pragma unroll
    for (u32 i = 1; i < 8; i++)
        if (size >> i)
            class = i;
    return node->classes[class];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
