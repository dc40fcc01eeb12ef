// A machine of states over the nodes of a list.
#include "nearfield_offload.h"

struct node {
    u64 next;
    u8 letter;
};

struct scratchpad {
    u32 state;
    u32 matches;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    switch (pad->state) {
    case 0:
        pad->state = node->letter == 'a';
        break;
    case 1:
        pad->state = node->letter == 'b' ? 2 : node->letter == 'a';
        break;
    case 2:
        if (node->letter == 'c')
            pad->matches++;
        pad->state = 0;
        break;
    }
    return 0;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
