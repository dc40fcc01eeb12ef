// Copies a structure of several sizes to the scratchpad.
#include "nearfield_offload.h"

struct entry {
    u64 key;
    u32 word;
    u16 half;
    u8 bytes[2];
};

struct node {
    u64 next;
    struct entry entry;
};

struct scratchpad {
    u64 key;
    struct entry entry;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    struct entry copy = node->entry;
    if (copy.key != pad->key)
        return 0;
    copy.half++;
    pad->entry = copy;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
