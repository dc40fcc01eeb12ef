// std::find on a std::list.
#include "nearfield_offload.h"

struct node {
    u64 next, previous, value;
};

struct scratchpad {
    u64 key, found, entry_key, entry_value, entry_node, list_end;
};

NEARFIELD_INLINE int end(const struct node *node, struct scratchpad *pad, u64 address) {
    if (node->value == pad->key) {
        pad->found = 1;
        pad->entry_key = node->value;
        pad->entry_value = node->value;
        pad->entry_node = address;
        return 1;
    }
    return node->next == pad->list_end;
}

NEARFIELD_INLINE u64 next(const struct node *node, struct scratchpad *pad, u64 address) {
    return node->next;
}

NEARFIELD_TRAVERSAL(struct node, struct scratchpad)
