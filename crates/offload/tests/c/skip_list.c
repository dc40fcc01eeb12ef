// find in a skip list, whose level is a signed number.
#include "nearfield_offload.h"

struct node {
    int level;
    u64 key, value;
    u64 next[8], next_key[8];
};

struct scratchpad {
    u64 key, found, value, at;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key != pad->key)
        return 0;
    pad->found = 1;
    pad->value = node->value;
    pad->at = address;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    int level = node->level;
    if (level < 0 || level >= 8)
        return 0;
    return node->next[level];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
