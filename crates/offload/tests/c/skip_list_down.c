// Descends in a skip list: the state has the level, and nodes the keys behind links.
#include "nearfield_offload.h"

struct node {
    u64 next[8], next_key[8];
    u64 key;
};

struct scratchpad {
    u64 key;
    long long level;
    u64 found;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->key == pad->key) {
        pad->found = 1;
        return 1;
    }
    return pad->level < 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    long long level = pad->level;
    if (level > 7)
        level = 7;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (level < 0)
            return 0;
        if (node->next[level] && node->next_key[level] <= pad->key)
            break;
        level--;
    }
    pad->level = level;
    return level < 0 ? 0 : node->next[level];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
