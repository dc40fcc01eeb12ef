// Descends in a node of an adaptive tree by its kind.
#include "nearfield_offload.h"

struct node {
    u8 kind;
    u8 keys[16];
    u64 child[16];
};

struct scratchpad {
    u64 key;
    u32 depth;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->kind == 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u8 byte = (u8)(pad->key >> (8 * (pad->depth & 7)));
    pad->depth++;
    switch (node->kind) {
    case 1:
        return node->keys[0] == byte ? node->child[0] : 0;
    case 4:
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (node->keys[i] == byte)
                return node->child[i];
        return 0;
    case 16:
#pragma unroll
        for (int i = 0; i < 16; i++)
            if (node->keys[i] == byte)
                return node->child[i];
        return 0;
    case 48:
        return node->child[node->keys[byte & 15] & 15];
    }
    return 0;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
