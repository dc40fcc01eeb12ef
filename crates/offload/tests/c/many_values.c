// Keeps more values than there are registers.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u8 at;
    u64 words[12];
};

struct scratchpad {
    u64 sum, product;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u64 a = node->words[0], b = node->words[1], c = node->words[2], d = node->words[3];
    u64 e = node->words[4], f = node->words[5], g = node->words[6], h = node->words[7];
    u64 i = node->words[8], j = node->words[9], k = node->words[10];
    u32 at = node->at;
    if (at > 11)
        return 1;
    pad->sum += (a ^ b) + (c ^ d) + (e ^ f) + (g ^ h) + (i ^ j) + k;
    pad->product += (a * c) ^ (b * d) ^ (e * g) ^ (f * h) ^ (i * k) ^ (j * a);
    pad->sum += node->words[at] * (a + b + c + d + e + f + g + h + i + j + k);
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
