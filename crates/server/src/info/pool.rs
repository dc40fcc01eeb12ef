//! The section about the pool.

use super::InfoPage;

/// Writes the section.
pub fn write(page: &mut InfoPage<'_>) {
    let Some(pool) = page.server.keyspace.home.pool_use() else {
        page.field("pool_nodes", 0);
        return;
    };
    let lost = pool.nodes.iter().filter(|node| !node.is_served).count();
    page.field("pool_nodes", pool.nodes.len());
    page.field("pool_nodes_lost", lost);
    page.field("pool_cache_bytes", pool.cache_bytes);
    page.field("pool_retired_bytes", pool.retired_bytes);
    for node in &pool.nodes {
        let state = if node.is_served { "served" } else { "lost" };
        let fields = format!("state={state},failures={}", node.failures);
        page.field(&format!("pool_node_{}", node.node.0), fields);
    }
}
