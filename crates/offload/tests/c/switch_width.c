// Reads a field whose width the node names.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u32 width;
    u8 bytes[12];
};

struct scratchpad {
    u64 sum;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    switch (node->width) {
    case 1:
        pad->sum += node->bytes[0];
        break;
    case 2:
        pad->sum += *(const u16 *)node->bytes;
        break;
    case 4:
        pad->sum += *(const u32 *)node->bytes;
        break;
    case 8:
        pad->sum += *(const u64 *)(node->bytes + 4);
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
