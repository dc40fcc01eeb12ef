// Keys in big-endian order, of 16 and 32 bits.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u16 port;
    u32 address;
    u64 link[16];
};

struct scratchpad {
    u32 address;
    u16 port;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    u32 host = __builtin_bswap32(node->address);
    return host == pad->address && __builtin_bswap16(node->port) == pad->port;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->link[__builtin_bswap16(node->port) & 15];
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
