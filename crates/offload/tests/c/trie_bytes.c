// Descends by the next byte of a key, in a trie of 26 letters.
#include "nearfield_offload.h"

struct node {
    u64 child[26];
    u64 value;
};

struct scratchpad {
    u64 found, value;
    u32 depth;
    char key[20];
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (pad->depth >= 20)
        return 1;
    if (pad->key[pad->depth])
        return 0;
    pad->found = 1;
    pad->value = node->value;
    return 1;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 depth = pad->depth;
    if (depth >= 20)
        return 0;
    int letter = pad->key[depth] - 'a';
    pad->depth = depth + 1;
    if (letter < 0 || letter > 25)
        return 0;
    return node->child[letter];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
